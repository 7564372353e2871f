//! State of a running AllocSvr for the judges of a simulation. Only with `--cfg sim`.

use seqsvr_core::ids::{ClusterId, Epoch, SectionKey, SessionId, Slot};
use seqsvr_core::lease::ClockReading;

use super::AllocServer;

/// An AllocSvr at one moment.
#[derive(Clone, Debug)]
pub struct AllocView {
    /// Its session, if it has one that has not ended.
    pub session: Option<SessionView>,
    /// Cluster and version of its table.
    pub table: Option<(ClusterId, u64)>,
    /// Slots whose calls it would answer if its lease holds, with their epochs.
    pub slots: Vec<(Slot, Epoch)>,
    /// Its loaded sections.
    pub sections: Vec<SectionView>,
    /// Items of calls that wait.
    pub waiting: usize,
    /// Error that ended it, if it has ended.
    pub failure: Option<String>,
}

/// A session and its lease.
#[derive(Clone, Copy, Debug)]
pub struct SessionView {
    /// Its id.
    pub id: SessionId,
    /// End of the lease on the clocks of this AllocSvr.
    pub deadline: ClockReading,
}

/// A loaded section.
#[derive(Clone, Copy, Debug)]
pub struct SectionView {
    /// The section.
    pub key: SectionKey,
    /// Session in which it was opened.
    pub session: SessionId,
    /// Epoch of its slot.
    pub epoch: Epoch,
    /// Its generation.
    pub generation: u64,
    /// Greatest number that it may hand out.
    pub max_seq: u64,
    /// Whether it no longer hands out numbers.
    pub is_sealed: bool,
}

impl AllocServer {
    /// Returns the state of this AllocSvr now. Does not block.
    pub fn look(&self) -> AllocView {
        let components = &self.components;
        let shared = &components.shared;
        let session = shared.session.load().filter(|session| session.is_alive());
        let table = shared.table.load();
        let slots = match (&session, &table) {
            (Some(session), Some(table)) => {
                let owned = table.routes().map(|(slot, route)| (slot, route.epoch));
                let owned = owned.filter(|(slot, epoch)| {
                    session.is_owner_of(*slot, *epoch, table)
                        && !components.sections.is_frozen(*slot, *epoch)
                });
                owned.collect()
            }
            _ => Vec::new(),
        };
        let sections = components.sections.all();
        let mut sections: Vec<SectionView> = sections
            .iter()
            .map(|loaded| SectionView {
                key: loaded.key(),
                session: loaded.session.id,
                epoch: loaded.fence.epoch,
                generation: loaded.generation.0,
                max_seq: loaded.section.max_seq(),
                is_sealed: loaded.section.is_sealed() || !loaded.session.is_alive(),
            })
            .collect();
        sections.sort_by_key(|section| section.key);
        AllocView {
            session: session.map(|session| SessionView {
                id: session.id,
                deadline: session.deadline(),
            }),
            table: table.map(|table| (table.cluster(), table.version())),
            slots,
            sections,
            waiting: components.sequence.slow_path.waiting_count(),
            failure: self.failed.borrow().as_ref().map(ToString::to_string),
        }
    }
}
