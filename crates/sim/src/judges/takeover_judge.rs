//! Judges how long a dead AllocSvr keeps its session, also during faults.

use std::collections::BTreeMap;

use crate::cluster::{SimCluster, machine_name};
use crate::network::MachineId;

/// Judge of takeovers.
///
/// A session ends W after its last renewal. A leader that had no quorum for some time may restart
/// its timers once before they expire (ADR 0019), so twice W is the bound; the rest is for
/// elections, rounds and slow links.
#[derive(Default)]
pub struct TakeoverJudge {
    /// Time since which an AllocSvr has no process, ms.
    dead_since_ms: BTreeMap<MachineId, u64>,
    /// Leader, its term, and the time of its election, ms.
    leader: Option<(MachineId, u64, u64)>,
}

impl TakeoverJudge {
    /// Judges the AllocSvrs that have no process. Returns the broken rule.
    pub fn judge_takeovers(&mut self, cluster: &SimCluster) -> Option<String> {
        let now = cluster.now_ms;
        let leader = cluster.find_leader()?;
        let store = cluster.machines.get(&leader)?.running_store()?;
        let term = store.look().term;
        let known_leader = self
            .leader
            .filter(|(id, of, _)| (*id, *of) == (leader, term));
        let led_since_ms = known_leader.map_or(now, |(_, _, since)| since);
        self.leader = Some((leader, term, led_since_ms));
        for id in cluster.allocs_in_use() {
            let is_dead = cluster.machines.get(&id)?.process.is_none();
            match is_dead {
                true => self.dead_since_ms.entry(id).or_insert(now),
                false => {
                    self.dead_since_ms.remove(&id);
                    continue;
                }
            };
        }
        let takeover_wait_ms = cluster.setup.lease_ms * 5 / 4;
        let takeover_max_ms = 4 * takeover_wait_ms + 2_000;
        let is_late = |since: &u64| now > (*since).max(led_since_ms) + takeover_max_ms;
        let late_takeover = self.dead_since_ms.iter().find(|(id, since)| {
            let has_session = || {
                store.with_state(|state| {
                    state
                        .sessions()
                        .any(|(_, session)| session.name == machine_name(**id))
                })
            };
            is_late(since) && has_session()
        });
        late_takeover.map(|(id, since)| {
            format!(
                "takeover: {} is dead since {since}, and its session is not over",
                machine_name(*id)
            )
        })
    }
}
