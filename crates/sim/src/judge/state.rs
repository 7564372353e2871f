//! Judges the insides of all servers, between the steps of the world.

use std::collections::BTreeMap;

use seqsvr_alloc::AllocView;
use seqsvr_core::id::{SectionKey, SessionId, Slot};
use seqsvr_store::sim::{self as disks, Entry};

use crate::cluster::{Cluster, name};
use crate::net::MachineId;

/// Digests kept by index.
const DIGESTS_MAX: usize = 2_000;

/// Judge of the insides.
#[derive(Default)]
pub struct StateJudge {
    /// Who led each term.
    leaders: BTreeMap<u64, MachineId>,
    /// Digest of the state after an entry, and who said so.
    digests: BTreeMap<u64, ([u8; 16], MachineId)>,
    /// Newest entry that a store has applied.
    committed: Option<Entry>,
    /// Applied entries of process starts, which never go back.
    applied: BTreeMap<u64, Entry>,
}

impl StateJudge {
    /// Looks at all servers. Returns the first rule that is broken.
    pub fn look(&mut self, cluster: &Cluster, has_bounded_clocks: bool) -> Option<String> {
        let stores = self.look_at_stores(cluster);
        stores.or_else(|| look_at_allocs(cluster, has_bounded_clocks))
    }

    fn look_at_stores(&mut self, cluster: &Cluster) -> Option<String> {
        let mut voters: Vec<Vec<u64>> = Vec::new();
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
            let Some(applied) = view.applied else {
                continue;
            };
            let before = self.applied.insert(process.start, applied);
            if before.is_some_and(|before| before > applied) {
                return Some(format!(
                    "4: {} has applied {applied:?} after {before:?}",
                    name(id)
                ));
            }
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
                voters = view.voters;
            }
        }
        while self.digests.len() > DIGESTS_MAX {
            self.digests.pop_first();
        }
        let committed = self.committed?;
        let is_durable = |id: &u64| {
            let machine = cluster.machines.get(&(*id as MachineId));
            machine.is_some_and(|machine| disks::has_durable(&machine.data_dir(), committed))
        };
        voters.iter().find_map(|voters| {
            let durable = voters.iter().filter(|id| is_durable(id)).count();
            (2 * durable <= voters.len()).then(|| {
                format!(
                    "3: {committed:?} is applied, and durable on {durable} of {} voters",
                    voters.len()
                )
            })
        })
    }
}

/// An AllocSvr, and whether its lease holds by its own clocks.
struct AllocAtWork {
    id: MachineId,
    view: AllocView,
    has_lease: bool,
}

fn look_at_allocs(cluster: &Cluster, has_bounded_clocks: bool) -> Option<String> {
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
    let windows = wide_windows(cluster, &all);
    if windows.is_some() || !has_bounded_clocks {
        return windows;
    }
    two_owners(&all).or_else(|| expired_lease(cluster, &all))
}

/// 6: no section has a window above what a store has committed for its generation.
fn wide_windows(cluster: &Cluster, all: &[AllocAtWork]) -> Option<String> {
    // One that has applied the first entry of its own term has applied all that was ever acknowledged before.
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
    // A later leader may have acknowledged more, and be gone again.
    let dirs = cluster.machines.values().map(|machine| machine.data_dir());
    let newest = dirs.map(|dir| disks::durable_term(&dir)).max();
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
            // Of an older generation the store knows nothing any more; it is sealed soon.
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

/// 7 and 8: of a slot and of a section at most one AllocSvr answers.
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

/// 9: a session that a store has ended has no lease.
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
