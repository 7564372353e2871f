//! Judges rule 4: nothing goes back, neither in a process nor on a disk.

use std::collections::BTreeMap;

use seqsvr_store::sim::{self as disks, DurableVote, Entry, NodeView};

use crate::cluster::machine_name;
use crate::machine::SimMachine;
use crate::network::MachineId;

/// Judge of values that never decrease.
#[derive(Default)]
pub struct RegressionJudge {
    /// Last progress of each start of a store.
    last_progress: BTreeMap<u64, StoreProgress>,
    /// Last durable vote of each disk, and whether the disk had been wiped.
    last_votes: BTreeMap<MachineId, (bool, DurableVote)>,
}

/// Values that never decrease while a store runs.
#[derive(Clone, Copy, Debug, Default)]
struct StoreProgress {
    term: u64,
    applied: Option<Entry>,
    snapshot: Option<Entry>,
    purged: Option<Entry>,
}

impl StoreProgress {
    fn has_gone_back(&self, now: &StoreProgress) -> bool {
        self.term > now.term
            || self.applied > now.applied
            || self.snapshot > now.snapshot
            || self.purged > now.purged
    }
}

impl RegressionJudge {
    /// Judges a store and its disk. Returns the broken rule.
    pub fn judge_store(
        &mut self,
        machine: &SimMachine,
        start: u64,
        view: &NodeView,
    ) -> Option<String> {
        let now = StoreProgress {
            term: view.term,
            applied: view.applied,
            snapshot: view.snapshot,
            purged: view.purged,
        };
        let before = self.last_progress.insert(start, now).unwrap_or_default();
        let vote = (machine.is_wiped, disks::durable_vote(&machine.data_dir()));
        let voted = self.last_votes.insert(machine.id, vote).unwrap_or_default();
        let forgot = voted.0 == vote.0 && !voted.1.may_become(vote.1);
        let is_ordered = view.purged <= view.snapshot && view.snapshot <= view.applied;
        (before.has_gone_back(&now) || forgot || !is_ordered).then(|| {
            let name = machine_name(machine.id);
            format!("4: {name} was at {before:?} and voted {voted:?}; now {vote:?} {view:?}")
        })
    }
}
