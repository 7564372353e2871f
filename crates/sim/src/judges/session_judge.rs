//! Judges how long an AllocSvr that runs has no session while a store leads, also during faults.

use std::collections::BTreeMap;

use seqsvr_core::ids::SessionId;

use crate::cluster::{SimCluster, machine_name};
use crate::network::MachineId;

/// Judge of sessions.
///
/// An AllocSvr whose session has ended opens another one once the leader has waited W; four W and
/// the rest are for elections, rounds and stores that do not answer.
#[derive(Default)]
pub struct SessionJudge {
    /// Time since which an AllocSvr has no session in the state of the leader, ms.
    without_session_since_ms: BTreeMap<MachineId, u64>,
}

impl SessionJudge {
    /// Judges the AllocSvrs that run. Returns the broken rule.
    pub fn judge_sessions(&mut self, cluster: &SimCluster) -> Option<String> {
        let now = cluster.now_ms;
        let leader = cluster.find_leader();
        let Some(store) = leader.and_then(|id| cluster.machines.get(&id)?.running_store()) else {
            self.without_session_since_ms.clear();
            return None;
        };
        for id in cluster.allocs_in_use() {
            let alloc = cluster.machines.get(&id).and_then(|m| m.running_alloc());
            let session = alloc.as_ref().map(|alloc| alloc.look().session);
            let is_open =
                |session: SessionId| store.with_state(|state| state.session(session).is_some());
            match session {
                Some(session) if session.is_none_or(|s| !is_open(s.id)) => {
                    self.without_session_since_ms.entry(id).or_insert(now);
                }
                _ => drop(self.without_session_since_ms.remove(&id)),
            }
        }
        let takeover_wait_ms = cluster.setup.lease_ms * 5 / 4;
        let outage_max_ms = 4 * takeover_wait_ms + 2_000;
        let mut outages = self.without_session_since_ms.iter();
        let (id, since) = outages.find(|(_, since)| now > **since + outage_max_ms)?;
        Some(format!(
            "outage: a store leads, and {} has no session since {since}",
            machine_name(*id)
        ))
    }
}
