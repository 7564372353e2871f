//! Holders: processes that make ids, and what they hold in memory.
//!
//! Invariant: a holder uses a tick only of a grant that a reply gave to it, and none after it has
//! sent a release. A reply widens only the grant that it names, and installs only an epoch above
//! all that were installed before.

use super::WORKERS_MAX;
use super::message::GrantReply;
use crate::rules::{Rule, RuleSet};

/// A grant in memory: the generator of one worker epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeldGrant {
    /// The worker epoch that it belongs to.
    pub(crate) epoch: u8,
    /// Its lane.
    pub(crate) lane: usize,
    /// The first tick of which nothing was given.
    pub(crate) next: u8,
    /// The first tick that was not granted.
    pub(crate) until: u8,
}

/// One process that makes ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct GrantHolder {
    /// Its grant of each worker.
    pub(crate) grants: [Option<HeldGrant>; WORKERS_MAX],
    /// The highest epoch of each worker that it installed.
    pub(crate) highest_installed: [u8; WORKERS_MAX],
}

impl GrantHolder {
    /// Takes a reply, which may come late, twice or never.
    pub(crate) fn receive_reply(&mut self, reply: GrantReply, rules: RuleSet) {
        match reply {
            GrantReply::Granted {
                worker,
                epoch,
                lane,
                from,
                until,
            } => {
                let present = self.grants[worker].filter(|grant| grant.epoch == epoch);
                if present.is_some() {
                    self.widen_grants(worker, epoch, until, rules);
                } else if epoch > self.find_highest_epoch(worker, rules) {
                    self.highest_installed[worker] = epoch;
                    self.grants[worker] = Some(HeldGrant {
                        epoch,
                        lane,
                        next: from,
                        until,
                    });
                }
            }
            GrantReply::Renewed {
                worker,
                epoch,
                until,
            } => self.widen_grants(worker, epoch, until, rules),
        }
    }

    /// Seals the grant of a worker before a release of it is sent.
    pub(crate) fn seal_grant(&mut self, worker: usize, rules: RuleSet) {
        if rules.has(Rule::ReleasedIsDead) {
            self.grants[worker] = None;
        }
    }

    fn find_highest_epoch(&self, worker: usize, rules: RuleSet) -> u8 {
        if rules.has(Rule::RememberEpoch) {
            self.highest_installed[worker]
        } else {
            self.grants[worker].map_or(0, |grant| grant.epoch)
        }
    }

    fn widen_grants(&mut self, worker: usize, epoch: u8, until: u8, rules: RuleSet) {
        for (number, slot) in self.grants.iter_mut().enumerate() {
            let Some(grant) = slot else { continue };
            let is_named = number == worker && grant.epoch == epoch;
            if is_named || !rules.has(Rule::WidenOwn) {
                grant.until = grant.until.max(until);
            }
        }
    }
}
