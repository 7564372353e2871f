//! Ledger of granted ticks: what replies gave to which epoch, and nothing that the state says.

use std::collections::BTreeMap;

use seqsvr_core::family::WorkerGrant;
use seqsvr_core::ids::{WorkerEpoch, WorkerKey};

/// Error text of a broken rule.
pub(crate) type Verdict = Result<(), String>;

/// What one worker epoch was granted.
#[derive(Clone, Debug)]
struct GrantedTicks {
    lane: u32,
    from: u64,
    /// First tick that its holder may not use.
    until: u64,
    /// Whether its holder can no longer extend it.
    is_closed: bool,
}

/// Bounds that a new grant must keep.
pub(crate) struct GrantBounds {
    /// Tick of store time.
    pub(crate) now: u64,
    /// Floor of the family.
    pub(crate) floor: u64,
    /// Most ticks in front of store time: ahead and window.
    pub(crate) reach: u64,
    /// First tick that the layout does not have.
    pub(crate) end: u64,
    /// Whether each number is granted once.
    pub(crate) is_once: bool,
    /// Whether lanes only rise.
    pub(crate) lanes_rise: bool,
}

/// All grants of a run.
#[derive(Debug, Default)]
pub(crate) struct GrantLedger {
    grants: BTreeMap<(WorkerKey, WorkerEpoch), GrantedTicks>,
    /// Events that a test wants to see.
    pub(crate) reached: BTreeMap<&'static str, u32>,
}

impl GrantLedger {
    /// Notes a reply to an acquisition or a renewal.
    pub(crate) fn note_grant(&mut self, grant: &WorkerGrant, bounds: &GrantBounds) -> Verdict {
        let WorkerGrant {
            worker,
            epoch,
            lane,
            from,
            until,
            ..
        } = *grant;
        if until > bounds.end || from >= until {
            return Err(format!(
                "{grant:?} is empty, or beyond the end {}",
                bounds.end
            ));
        }
        if let Some(known) = self.grants.get_mut(&(worker, epoch)) {
            if (known.lane, known.from) != (lane, from) || until < known.until {
                return Err(format!("{grant:?} moved: it was {known:?}"));
            }
            if known.is_closed {
                return Err(format!("{grant:?} was closed: {known:?}"));
            }
            known.until = until;
        } else {
            self.check_new(grant, bounds)?;
            let granted = GrantedTicks {
                lane,
                from,
                until,
                is_closed: false,
            };
            self.grants.insert((worker, epoch), granted);
        }
        let others = self
            .of_worker(worker)
            .filter(|(e, other)| *e != epoch && other.lane == lane);
        for (other_epoch, other) in others {
            if from < other.until && other.from < until {
                return Err(format!(
                    "{grant:?} shares ticks with epoch {other_epoch}: {other:?}"
                ));
            }
        }
        Ok(())
    }

    fn check_new(&mut self, grant: &WorkerGrant, bounds: &GrantBounds) -> Verdict {
        let GrantBounds {
            now, floor, reach, ..
        } = *bounds;
        if grant.from < now.max(floor) || grant.until > now + reach {
            return Err(format!(
                "{grant:?} is not of {now} (floor {floor}) to {reach} more"
            ));
        }
        let last = self.of_worker(grant.worker).next_back();
        let last = last.map(|(epoch, last)| (epoch, last.clone()));
        let Some((last_epoch, last)) = last else {
            return Ok(());
        };
        if grant.epoch <= last_epoch {
            return Err(format!("{grant:?} is not above epoch {last_epoch}"));
        }
        if bounds.is_once {
            return Err(format!(
                "{grant:?}: the number was granted before, {last:?}"
            ));
        }
        if bounds.lanes_rise && grant.lane < last.lane {
            return Err(format!("{grant:?}: lane {} is used up", last.lane));
        }
        let mut note = |event| *self.reached.entry(event).or_default() += 1;
        if grant.lane != last.lane {
            note("another lane");
        }
        if !last.is_closed {
            note("taken over from a holder");
        }
        self.close(grant.worker, last_epoch, None);
        Ok(())
    }

    /// Notes that an epoch ended; `used` is the first tick that its holder made no id of.
    pub(crate) fn close(&mut self, worker: WorkerKey, epoch: WorkerEpoch, used: Option<u64>) {
        let Some(known) = self.grants.get_mut(&(worker, epoch)) else {
            return;
        };
        known.is_closed = true;
        if let Some(used) = used.filter(|used| *used < known.until) {
            known.until = used.max(known.from);
            *self.reached.entry("released early").or_default() += 1;
        }
    }

    fn of_worker(
        &self,
        worker: WorkerKey,
    ) -> impl DoubleEndedIterator<Item = (WorkerEpoch, &GrantedTicks)> {
        let epochs = (worker, WorkerEpoch(0))..=(worker, WorkerEpoch(u64::MAX));
        self.grants
            .range(epochs)
            .map(|((_, epoch), granted)| (*epoch, granted))
    }
}
