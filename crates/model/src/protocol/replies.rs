//! What an AllocSvr does with a reply, which may come late, twice or never.
//!
//! Invariant: a reply installs or widens a section object only for a window that the store gave to
//! that generation.

use super::Protocol;
use crate::parameters::LEASE_TICKS;
use crate::rules::Rule;
use crate::world::World;
use crate::world::alloc_process::{AllocProcess, SectionObject};
use crate::world::message::ReplyInFlight;
use crate::world::store_command::StoreReply;

impl Protocol {
    /// Lets the AllocSvr that a reply is for take it.
    pub(super) fn receive_reply(&self, world: &mut World, reply: ReplyInFlight) {
        let process = &mut world.processes[usize::from(reply.process)];
        if !process.may_accept_from(reply.cluster, self.rules) {
            return;
        }
        match reply.reply {
            StoreReply::SessionOpened { nonce, session } => {
                let is_new = process.nonce == nonce && !process.has_had_session(session);
                if process.up && is_new {
                    process.join_cluster(reply.cluster);
                    process.begin_session(session);
                    process.lease_age = if self.rules.has(Rule::LeaseFromRenewalOnly) {
                        LEASE_TICKS
                    } else {
                        0
                    };
                }
            }
            StoreReply::OpenRejected { nonce, .. } => process.end_open(nonce),
            StoreReply::Raised {
                generation, max, ..
            } => {
                let object = if self.rules.has(Rule::WidenOwnGeneration) {
                    process.object_of_generation(generation)
                } else {
                    process.object.as_mut()
                };
                if let Some(object) = object {
                    object.max = object.max.max(max);
                }
            }
            StoreReply::SectionOpened {
                session,
                epoch,
                nonce,
                generation,
                base,
                max,
            } => {
                process.end_open(nonce);
                let object = SectionObject {
                    session,
                    epoch,
                    generation,
                    last: base,
                    max,
                    sealed: process.stopped_epoch == epoch,
                };
                self.install_object(process, object);
            }
        }
    }

    fn install_object(&self, process: &mut AllocProcess, object: SectionObject) {
        let is_old = object.generation <= process.highest_installed;
        if !process.up || self.rules.has(Rule::IgnoreOldReply) && is_old {
            return;
        }
        process.highest_installed = object.generation;
        if let Some(mut older) = process.object.replace(object) {
            older.sealed |= self.rules.has(Rule::SealOlder);
            if process.has_guard_in(older.generation) {
                process.older_object = Some(older);
            }
        }
    }
}
