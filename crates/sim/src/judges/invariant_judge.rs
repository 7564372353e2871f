//! Judges the state of all servers between two turns of the world.

use std::collections::BTreeMap;

use seqsvr_alloc::AllocView;
use seqsvr_core::ids::{ClusterId, SectionKey, SessionId, Slot};
use seqsvr_store::sim::{self as disks, Entry};

use super::regression_judge::RegressionJudge;
use crate::cluster::{SimCluster, machine_name};
use crate::machine::SimMachine;
use crate::network::MachineId;

/// Maximum digests kept, by index. Above it, the digest of the lowest index is dropped.
const DIGESTS_MAX: usize = 2_000;

/// Judge of the invariants 1 to 4 and 6 to 9.
#[derive(Default)]
pub struct InvariantJudge {
    /// Leader of each term.
    leader_of_term: BTreeMap<u64, MachineId>,
    /// Digest of the state after each entry, and the store that reported it first.
    digests: BTreeMap<u64, ([u8; 16], MachineId)>,
    /// Newest entry that any store has applied.
    committed: Option<Entry>,
    regression: RegressionJudge,
    /// Time at which the stores were last wiped to make another cluster of them, ms.
    remade_at_ms: Option<u64>,
    /// Cluster that the stores have belonged to since then.
    newest_cluster: Option<ClusterId>,
}

impl InvariantJudge {
    /// Judges all servers. Returns the first broken rule.
    pub fn judge_servers(
        &mut self,
        cluster: &SimCluster,
        has_bounded_clocks: bool,
    ) -> Option<String> {
        if self.remade_at_ms != cluster.remade_at_ms {
            *self = InvariantJudge {
                remade_at_ms: cluster.remade_at_ms,
                ..InvariantJudge::default()
            };
        }
        self.newest_cluster = find_newest_cluster(cluster).or(self.newest_cluster);
        let stores = self.judge_stores(cluster);
        stores.or_else(|| judge_allocs(cluster, self.newest_cluster, has_bounded_clocks))
    }

    fn judge_stores(&mut self, cluster: &SimCluster) -> Option<String> {
        let mut voters: [Vec<Vec<u64>>; 2] = Default::default();
        for machine in cluster.machines.values() {
            let (Some(store), Some(process)) = (machine.running_store(), &machine.process) else {
                continue;
            };
            let (id, view) = (machine.id, store.look());
            if view.is_leader {
                let leader = *self.leader_of_term.entry(view.term).or_insert(id);
                if leader != id {
                    let (a, b) = (machine_name(leader), machine_name(id));
                    return Some(format!("1: {a} and {b} lead term {}", view.term));
                }
            }
            if let Some(broken) = self
                .regression
                .judge_store(machine, process.start_number, &view)
            {
                return Some(broken);
            }
            let Some(applied) = view.applied else {
                continue;
            };
            let known = *self
                .digests
                .entry(applied.index)
                .or_insert((view.digest, id));
            if known.0 != view.digest {
                let (a, b) = (machine_name(known.1), machine_name(id));
                return Some(format!(
                    "2: states of {a} and {b} differ at {}",
                    applied.index
                ));
            }
            if self.committed.is_none_or(|newest| newest <= applied) {
                self.committed = Some(applied);
                // A membership that is not applied yet may have counted the entry.
                voters = [view.voters, view.next_voters];
            }
        }
        while self.digests.len() > DIGESTS_MAX {
            self.digests.pop_first();
        }
        let committed = self.committed?;
        let is_durable = |id: &u64| {
            let machine = cluster.machines.get(&(*id as MachineId));
            machine.is_some_and(|machine| {
                // Before it was wiped, its disk had all that it acknowledged; it no longer votes.
                machine.is_wiped || disks::has_durable(&machine.data_dir(), committed)
            })
        };
        let find_undurable = |sets: &Vec<Vec<u64>>| {
            sets.iter().find_map(|voters| {
                let durable: Vec<_> = voters.iter().filter(|id| is_durable(id)).collect();
                (2 * durable.len() <= voters.len()).then(|| {
                    format!("3: {committed:?} is applied, and durable on {durable:?} of {voters:?}")
                })
            })
        };
        voters.iter().map(find_undurable).reduce(Option::and)?
    }
}

/// AllocSvr, and whether its lease holds on its own clocks.
struct ObservedAlloc {
    id: MachineId,
    view: AllocView,
    has_lease: bool,
}

fn judge_allocs(
    cluster: &SimCluster,
    newest_cluster: Option<ClusterId>,
    has_bounded_clocks: bool,
) -> Option<String> {
    let mut allocs = Vec::new();
    for machine in cluster.machines.values() {
        let Some(alloc) = machine.running_alloc() else {
            continue;
        };
        let view = alloc.look();
        let now = machine.clock.peek_as_alloc();
        let has_lease = view
            .session
            .is_some_and(|session| now.is_before(session.deadline));
        allocs.push(ObservedAlloc {
            id: machine.id,
            view,
            has_lease,
        });
    }
    let is_of_newest_cluster = |alloc: &ObservedAlloc| {
        alloc
            .view
            .table
            .is_none_or(|(id, _)| Some(id) == newest_cluster)
    };
    let (allocs, of_earlier_cluster): (Vec<ObservedAlloc>, Vec<ObservedAlloc>) =
        allocs.into_iter().partition(is_of_newest_cluster);
    let windows = find_wide_window(cluster, &allocs);
    if windows.is_some() || !has_bounded_clocks {
        return windows;
    }
    find_two_owners(&allocs)
        .or_else(|| find_lease_of_expired_session(cluster, &allocs))
        .or_else(|| find_lease_of_wiped_cluster(cluster, &of_earlier_cluster))
}

/// Returns the cluster that the stores belong to.
fn find_newest_cluster(cluster: &SimCluster) -> Option<ClusterId> {
    let mut stores = cluster
        .machines
        .values()
        .filter_map(SimMachine::running_store);
    stores.find_map(|store| store.with_state(|state| state.cluster().map(|cluster| cluster.id)))
}

/// Judges rule 9 for a cluster whose stores were wiped: its leases do not outlive W.
fn find_lease_of_wiped_cluster(
    cluster: &SimCluster,
    of_earlier_cluster: &[ObservedAlloc],
) -> Option<String> {
    let wait = cluster.setup.lease_ms * 5 / 4;
    let until = cluster.remade_at_ms? + wait;
    let alloc = of_earlier_cluster.iter().find(|alloc| alloc.has_lease)?;
    (cluster.now_ms > until).then(|| {
        format!(
            "9: {} has a lease of a cluster whose stores are gone",
            machine_name(alloc.id)
        )
    })
}

/// Judges rule 6: no section has a window above what a store has committed for its generation.
fn find_wide_window(cluster: &SimCluster, allocs: &[ObservedAlloc]) -> Option<String> {
    // A leader that has applied the first entry of its own term has applied everything that was
    // acknowledged before.
    let stores = cluster
        .machines
        .values()
        .filter_map(|machine| machine.running_store());
    let ready_leaders = stores.filter(|store| {
        let view = store.look();
        view.is_leader
            && view
                .applied
                .is_some_and(|applied| applied.term == view.term)
    });
    let leader = ready_leaders.max_by_key(|store| store.look().term)?;
    // A later leader may have acknowledged more, and may have stopped again.
    let dirs = cluster.machines.values().map(|machine| machine.data_dir());
    let newest_term = dirs.map(|dir| disks::durable_vote(&dir).term).max();
    if newest_term > Some(leader.look().term) {
        return None;
    }
    for alloc in allocs {
        for section in &alloc.view.sections {
            if section.is_sealed {
                continue;
            }
            let max_seq = leader.with_state(|state| {
                let row = state.section(section.key)?;
                Some((row.generation.0, row.max_seq))
            });
            // The store has no row of an older generation; the AllocSvr seals it soon.
            if let Some((generation, max_seq)) = max_seq
                && generation == section.generation
                && max_seq < section.max_seq
            {
                return Some(format!(
                    "6: {} has a window of section {} up to {}, and the stores only {max_seq}",
                    machine_name(alloc.id),
                    section.key,
                    section.max_seq
                ));
            }
        }
    }
    None
}

/// Judges rules 7 and 8: at most one AllocSvr answers for a section and for a slot.
fn find_two_owners(allocs: &[ObservedAlloc]) -> Option<String> {
    let mut slots: BTreeMap<Slot, MachineId> = BTreeMap::new();
    let mut sections: BTreeMap<SectionKey, MachineId> = BTreeMap::new();
    for alloc in allocs.iter().filter(|alloc| alloc.has_lease) {
        for (slot, _) in &alloc.view.slots {
            if let Some(other) = slots.insert(*slot, alloc.id) {
                let (a, b) = (machine_name(other), machine_name(alloc.id));
                return Some(format!("8: {a} and {b} answer for slot {slot}"));
            }
        }
        let session = alloc.view.session.map(|session| session.id);
        let owned = alloc.view.slots.iter().map(|(_, epoch)| *epoch);
        let epochs: Vec<_> = owned.collect();
        let answered = alloc.view.sections.iter().filter(|section| {
            !section.is_sealed
                && Some(section.session) == session
                && epochs.contains(&section.epoch)
        });
        for section in answered {
            if let Some(other) = sections.insert(section.key, alloc.id)
                && other != alloc.id
            {
                let (a, b) = (machine_name(other), machine_name(alloc.id));
                return Some(format!("7: {a} and {b} have section {} open", section.key));
            }
        }
    }
    None
}

/// Judges rule 9: a session that a store has expired has no lease.
fn find_lease_of_expired_session(cluster: &SimCluster, allocs: &[ObservedAlloc]) -> Option<String> {
    for store in cluster.machines.values().filter_map(|m| m.running_store()) {
        let (ids, next_session) = store.with_state(|state| {
            let ids: Vec<SessionId> = state.sessions().map(|(id, _)| id).collect();
            (
                ids,
                state.cluster().map_or(0, |cluster| cluster.next_session),
            )
        });
        for alloc in allocs.iter().filter(|alloc| alloc.has_lease) {
            let Some(session) = alloc.view.session else {
                continue;
            };
            if session.id.0 < next_session && !ids.contains(&session.id) {
                return Some(format!(
                    "9: session {} of {} is over, and its lease holds",
                    session.id,
                    machine_name(alloc.id)
                ));
            }
        }
    }
    None
}
