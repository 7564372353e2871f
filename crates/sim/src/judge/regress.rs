//! Judges rule 4: nothing goes back, neither in a process nor on a disk.

use std::collections::BTreeMap;

use seqsvr_store::sim::{self as disks, DurableVote, Entry, NodeView};

use crate::cluster::{Machine, name};
use crate::net::MachineId;

/// Judge of values that never decrease.
#[derive(Default)]
pub struct RegressJudge {
    /// Last progress of each start of a store.
    progress: BTreeMap<u64, Progress>,
    /// Last durable vote of each disk, and whether the disk had been wiped.
    votes: BTreeMap<MachineId, (bool, DurableVote)>,
}

/// Values that never decrease while a store runs.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    term: u64,
    applied: Option<Entry>,
    snapshot: Option<Entry>,
    purged: Option<Entry>,
}

impl Progress {
    fn went_back(&self, now: &Progress) -> bool {
        self.term > now.term
            || self.applied > now.applied
            || self.snapshot > now.snapshot
            || self.purged > now.purged
    }
}

impl RegressJudge {
    /// Judges a store and its disk. Returns the broken rule.
    pub fn look(&mut self, machine: &Machine, start: u64, view: &NodeView) -> Option<String> {
        let now = Progress {
            term: view.term,
            applied: view.applied,
            snapshot: view.snapshot,
            purged: view.purged,
        };
        let before = self.progress.insert(start, now).unwrap_or_default();
        let vote = (machine.is_wiped, disks::durable_vote(&machine.data_dir()));
        let voted = self.votes.insert(machine.id, vote).unwrap_or_default();
        let forgot = voted.0 == vote.0 && !voted.1.may_become(vote.1);
        let is_ordered = view.purged <= view.snapshot && view.snapshot <= view.applied;
        (before.went_back(&now) || forgot || !is_ordered).then(|| {
            let name = name(machine.id);
            format!("4: {name} was at {before:?} and voted {voted:?}; now {vote:?} {view:?}")
        })
    }
}
