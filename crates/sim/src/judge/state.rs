//! Judges the state of all servers between two turns of the world.

use std::collections::BTreeMap;

use seqsvr_alloc::AllocView;
use seqsvr_core::id::{ClusterId, SectionKey, SessionId, Slot};
use seqsvr_store::sim::{self as disks, Entry};

use super::regress::RegressJudge;
use crate::cluster::{Cluster, Machine, name};
use crate::net::MachineId;

/// Maximum digests kept, by index. Above it, the digest of the lowest index is dropped.
const DIGESTS_MAX: usize = 2_000;

/// Judge of the invariants 1 to 4 and 6 to 9.
#[derive(Default)]
pub struct StateJudge {
    /// Leader of each term.
    leaders: BTreeMap<u64, MachineId>,
    /// Digest of the state after each entry, and the store that reported it first.
    digests: BTreeMap<u64, ([u8; 16], MachineId)>,
    /// Newest entry that any store has applied.
    committed: Option<Entry>,
    regress: RegressJudge,
    /// Time at which the stores were last wiped to make another cluster of them, ms.
    remade_at: Option<u64>,
    /// Cluster that the stores have belonged to since then.
    newest: Option<ClusterId>,
}

impl StateJudge {
    /// Judges all servers. Returns the first broken rule.
    pub fn look(&mut self, cluster: &Cluster, has_bounded_clocks: bool) -> Option<String> {
        if self.remade_at != cluster.remade_at {
            *self = StateJudge {
                remade_at: cluster.remade_at,
                ..StateJudge::default()
            };
        }
        self.newest = newest_cluster(cluster).or(self.newest);
        let stores = self.look_at_stores(cluster);
        stores.or_else(|| look_at_allocs(cluster, self.newest, has_bounded_clocks))
    }

    fn look_at_stores(&mut self, cluster: &Cluster) -> Option<String> {
        let mut voters: [Vec<Vec<u64>>; 2] = Default::default();
        for machine in cluster.machines.values() {
            let (Some(store), Some(process)) = (machine.store(), &machine.process) else {
                continue;
            };
            let (id, view) = (machine.id, store.look());
            if view.is_leader {
                let leader = *self.leaders.entry(view.term).or_insert(id);
                if leader != id {
                    let (a, b) = (name(leader), name(id));
                    return Some(format!("1: {a} and {b} lead term {}", view.term));
                }
            }
            if let Some(broken) = self.regress.look(machine, process.start, &view) {
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
                let (a, b) = (name(known.1), name(id));
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
        let without = |sets: &Vec<Vec<u64>>| {
            sets.iter().find_map(|voters| {
                let durable: Vec<_> = voters.iter().filter(|id| is_durable(id)).collect();
                (2 * durable.len() <= voters.len()).then(|| {
                    format!("3: {committed:?} is applied, and durable on {durable:?} of {voters:?}")
                })
            })
        };
        voters.iter().map(without).reduce(Option::and)?
    }
}

/// AllocSvr, and whether its lease holds on its own clocks.
struct AllocAtWork {
    id: MachineId,
    view: AllocView,
    has_lease: bool,
}

fn look_at_allocs(
    cluster: &Cluster,
    newest: Option<ClusterId>,
    has_bounded_clocks: bool,
) -> Option<String> {
    let mut all = Vec::new();
    for machine in cluster.machines.values() {
        let Some(alloc) = machine.alloc() else {
            continue;
        };
        let view = alloc.look();
        let now = machine.clock.peek_alloc();
        let has_lease = view
            .session
            .is_some_and(|session| now.is_before(session.deadline));
        all.push(AllocAtWork {
            id: machine.id,
            view,
            has_lease,
        });
    }
    let is_of = |alloc: &AllocAtWork| alloc.view.table.is_none_or(|(id, _)| Some(id) == newest);
    let (all, gone): (Vec<AllocAtWork>, Vec<AllocAtWork>) = all.into_iter().partition(is_of);
    let windows = wide_windows(cluster, &all);
    if windows.is_some() || !has_bounded_clocks {
        return windows;
    }
    two_owners(&all)
        .or_else(|| expired_lease(cluster, &all))
        .or_else(|| lease_of_a_gone_cluster(cluster, &gone))
}

/// Returns the cluster that the stores belong to.
fn newest_cluster(cluster: &Cluster) -> Option<ClusterId> {
    let mut stores = cluster.machines.values().filter_map(Machine::store);
    stores.find_map(|store| store.with_state(|state| state.cluster().map(|cluster| cluster.id)))
}

/// Judges rule 9 for a cluster whose stores were wiped: its leases do not outlive W.
fn lease_of_a_gone_cluster(cluster: &Cluster, gone: &[AllocAtWork]) -> Option<String> {
    let wait = cluster.setup.lease_ms * 5 / 4;
    let until = cluster.remade_at? + wait;
    let alloc = gone.iter().find(|alloc| alloc.has_lease)?;
    (cluster.now > until).then(|| {
        format!(
            "9: {} has a lease of a cluster whose stores are gone",
            name(alloc.id)
        )
    })
}

/// Judges rule 6: no section has a window above what a store has committed for its generation.
fn wide_windows(cluster: &Cluster, all: &[AllocAtWork]) -> Option<String> {
    // A leader that has applied the first entry of its own term has applied everything that was
    // acknowledged before.
    let stores = cluster
        .machines
        .values()
        .filter_map(|machine| machine.store());
    let ready = stores.filter(|store| {
        let view = store.look();
        view.is_leader
            && view
                .applied
                .is_some_and(|applied| applied.term == view.term)
    });
    let leader = ready.max_by_key(|store| store.look().term)?;
    // A later leader may have acknowledged more, and may have stopped again.
    let dirs = cluster.machines.values().map(|machine| machine.data_dir());
    let newest = dirs.map(|dir| disks::durable_vote(&dir).term).max();
    if newest > Some(leader.look().term) {
        return None;
    }
    for alloc in all {
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
                    name(alloc.id),
                    section.key,
                    section.max_seq
                ));
            }
        }
    }
    None
}

/// Judges rules 7 and 8: at most one AllocSvr answers for a section and for a slot.
fn two_owners(all: &[AllocAtWork]) -> Option<String> {
    let mut slots: BTreeMap<Slot, MachineId> = BTreeMap::new();
    let mut sections: BTreeMap<SectionKey, MachineId> = BTreeMap::new();
    for alloc in all.iter().filter(|alloc| alloc.has_lease) {
        for (slot, _) in &alloc.view.slots {
            if let Some(other) = slots.insert(*slot, alloc.id) {
                let (a, b) = (name(other), name(alloc.id));
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
                let (a, b) = (name(other), name(alloc.id));
                return Some(format!("7: {a} and {b} have section {} open", section.key));
            }
        }
    }
    None
}

/// Judges rule 9: a session that a store has expired has no lease.
fn expired_lease(cluster: &Cluster, all: &[AllocAtWork]) -> Option<String> {
    for store in cluster.machines.values().filter_map(|m| m.store()) {
        let (ids, next) = store.with_state(|state| {
            let ids: Vec<SessionId> = state.sessions().map(|(id, _)| id).collect();
            (
                ids,
                state.cluster().map_or(0, |cluster| cluster.next_session),
            )
        });
        for alloc in all.iter().filter(|alloc| alloc.has_lease) {
            let Some(session) = alloc.view.session else {
                continue;
            };
            if session.id.0 < next && !ids.contains(&session.id) {
                return Some(format!(
                    "9: session {} of {} is over, and its lease holds",
                    session.id,
                    name(alloc.id)
                ));
            }
        }
    }
    None
}
