//! Judges how long a dead AllocSvr keeps its session, also during faults.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, name};
use crate::net::MachineId;

/// Judge of takeovers.
///
/// A session ends W after its last renewal. A leader that had no quorum for some time may restart
/// its timers once before they expire (ADR 0019), so twice W is the bound; the rest is for
/// elections, rounds and slow links.
#[derive(Default)]
pub struct TakeoverJudge {
    /// Time since which an AllocSvr has no process, ms.
    dead_since: BTreeMap<MachineId, u64>,
    /// Leader, its term, and the time of its election, ms.
    leader: Option<(MachineId, u64, u64)>,
}

impl TakeoverJudge {
    /// Judges the AllocSvrs that have no process. Returns the broken rule.
    pub fn look(&mut self, cluster: &Cluster) -> Option<String> {
        let now = cluster.now;
        let leader = cluster.leader()?;
        let store = cluster.machines.get(&leader)?.store()?;
        let term = store.look().term;
        let same = self
            .leader
            .filter(|(id, of, _)| (*id, *of) == (leader, term));
        let led_since = same.map_or(now, |(_, _, since)| since);
        self.leader = Some((leader, term, led_since));
        for id in cluster.allocs() {
            let is_dead = cluster.machines.get(&id)?.process.is_none();
            match is_dead {
                true => self.dead_since.entry(id).or_insert(now),
                false => {
                    self.dead_since.remove(&id);
                    continue;
                }
            };
        }
        let wait = cluster.setup.lease_ms * 5 / 4;
        let within = 4 * wait + 2_000;
        let is_late = |since: &u64| now > (*since).max(led_since) + within;
        let late = self.dead_since.iter().find(|(id, since)| {
            let has_session = || {
                store.with_state(|state| {
                    state
                        .sessions()
                        .any(|(_, session)| session.name == name(**id))
                })
            };
            is_late(since) && has_session()
        });
        late.map(|(id, since)| {
            format!(
                "takeover: {} is dead since {since}, and its session is not over",
                name(*id)
            )
        })
    }
}
