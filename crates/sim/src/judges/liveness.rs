//! Judges whether a cluster has settled after all faults have ended.

use std::collections::BTreeSet;

use seqsvr_core::ids::SectionKey;
use seqsvr_core::state::State;
use seqsvr_store::StoreServer;

use crate::cluster::{SimCluster, machine_name};
use crate::machine::SimMachine;
use crate::plan::ClusterSetup;

/// Returns the maximum delay of a message, ms.
fn message_max_ms(setup: &ClusterSetup) -> u64 {
    let slow = if setup.net.slow_per_mille > 0 { 10 } else { 1 };
    setup.net.delay_max_ms * slow + setup.tick_ms
}

/// Returns whether the leader stays in the calm phase: no heartbeat takes as long as an election
/// timeout.
pub fn has_steady_leader(setup: &ClusterSetup) -> bool {
    let heartbeat = setup.heartbeat_ms + 2 * message_max_ms(setup) + setup.sync_ms.1;
    heartbeat < 2 * setup.heartbeat_ms
}

/// Returns the maximum duration of a call in the calm phase, ms.
///
/// A call may wait for a close and an Open of its section, or for a move of its slot: at most four
/// steps at the stores. A step is six messages, two syncs and two turns of the process that waits
/// for them. A message may be slow. Without a steady leader a call may last until its deadline.
pub fn calm_call_max_ms(setup: &ClusterSetup) -> u64 {
    let step = 6 * message_max_ms(setup) + 2 * (setup.sync_ms.1 + setup.tick_ms) + 10;
    match has_steady_leader(setup) {
        true => 50 + 4 * step,
        false => 5_000,
    }
}

/// Returns what has not settled yet. A settled cluster has one leader, equal stores, an owner of
/// every slot, and no queued item.
pub fn find_unsettled(cluster: &SimCluster) -> Option<String> {
    let stores: Vec<(&SimMachine, StoreServer)> = cluster
        .machines
        .values()
        .filter(|machine| machine.is_in_use && !machine.is_removed && !machine.is_wiped)
        .filter_map(|machine| Some((machine, machine.running_store()?)))
        .collect();
    let views: Vec<_> = stores
        .iter()
        .map(|(m, store)| (m.id, store.look()))
        .collect();
    let mut leaders = views.iter().filter(|(_, view)| view.is_leader);
    let Some((_, leader)) = leaders.next() else {
        return Some(String::from("no store leads"));
    };
    if leaders.next().is_some() {
        return Some(String::from("more than one store leads"));
    }
    let is_member = |id: &u32| leader.voters.iter().any(|v| v.contains(&u64::from(*id)));
    let lagging_store = views
        .iter()
        .find(|(id, view)| is_member(id) && view.applied != leader.applied);
    if let Some((id, view)) = lagging_store {
        return Some(format!(
            "{} has applied {:?}, and the leader {:?}",
            machine_name(*id),
            view.applied,
            leader.applied
        ));
    }
    let unowned_slots = stores[0].1.with_state(|state: &State| {
        let living: BTreeSet<_> = state.sessions().map(|(id, _)| id).collect();
        let is_free = |owner: Option<_>| owner.is_none_or(|id| !living.contains(&id));
        state
            .slots()
            .iter()
            .filter(|row| is_free(row.owner))
            .count()
    });
    if unowned_slots > 0 {
        return Some(format!("{unowned_slots} slots have no living owner"));
    }
    let allocs = cluster
        .machines
        .values()
        .filter(|machine| machine.is_in_use);
    let waiting =
        allocs.filter_map(|machine| Some((machine.id, machine.running_alloc()?.look().waiting)));
    let (id, count) = waiting.into_iter().find(|(_, count)| *count > 0)?;
    Some(format!("{count} items wait at {}", machine_name(id)))
}

/// Judges rule 10: a section that was moved or closed gracefully continues at the highest number
/// used in it. There its generation ends, or the next one begins.
///
/// `highest(uid)` is the highest number that a caller received.
pub fn find_skipped_numbers(
    cluster: &SimCluster,
    is_judged: impl Fn(SectionKey) -> bool,
    section_size: u64,
    highest: impl Fn(u64) -> u64,
) -> Option<String> {
    let leader = cluster.find_leader()?;
    let store = cluster.machines.get(&leader)?.running_store()?;
    store.with_state(|state| {
        let mut judged_sections = state.sections().filter(|(key, _)| is_judged(**key));
        judged_sections.find_map(|(key, section)| {
            let used = section_uids(*key, section_size)
                .map(&highest)
                .max()
                .unwrap_or(0);
            let continues_at = match section.open {
                true => section.base,
                false => section.max_seq,
            };
            (continues_at != used).then(|| {
                format!("10: the highest number used in section {key} is {used}: {section:?}")
            })
        })
    })
}

fn section_uids(key: SectionKey, section_size: u64) -> impl Iterator<Item = u64> {
    let first = u64::from(key.section.0) * section_size;
    first..first + section_size
}
