//! Hands the leadership over to another voter.
//!
//! Invariant: it is handed over only to a voter that answers and lags by next to nothing. From the
//! moment it is begun this leader writes nothing more (openraft's `Leader::mark_transfer`). So a
//! successor that is dead, or must first receive a long log, would cost the group an election's
//! time.
//!
//! Safety does not depend on it: the successor is elected by a quorum like any leader.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::RaftNode;
use super::membership::{CAUGHT_UP_LAG_MAX, POLL_INTERVAL};
use crate::detach_on_drop::detach_on_drop;
use crate::error::MemberError;

/// Time in which a successor must be fit.
const SUCCESSOR_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for the election of the successor: enough for several, if the first one fails.
const TRANSFER_ELECTION_TIMEOUT: Duration = Duration::from_secs(5);

impl RaftNode {
    /// Hands the leadership over to a voter, or to the one that lags least; resolves once it leads.
    /// If the named voter is this node and it leads, the call is answered as done.
    ///
    /// # Errors
    /// See [`MemberError`]; [`MemberError::NotLeader`] also if another node became leader.
    pub async fn transfer_leader(&self, to: Option<u64>) -> Result<(), MemberError> {
        let _change = self.begin_change().await?;
        if to == Some(self.identity().node) {
            return Ok(());
        }
        let (id, address) = self.transfer_to(to).await?;
        match to {
            Some(to) if to != id => Err(MemberError::NotLeader {
                leader: Some((id, address)),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the node that leads afterwards.
    pub(super) async fn transfer_to(&self, to: Option<u64>) -> Result<(u64, String), MemberError> {
        let own = self.identity().node;
        let voters = self.current_members().voters;
        if let Some(id) = to.filter(|id| !voters.contains(id)) {
            let all: Vec<String> = voters.iter().map(u64::to_string).collect();
            return Err(MemberError::Rejected(format!(
                "store {id} is no voter: the voters are {}",
                all.join(", ")
            )));
        }
        if voters.iter().all(|id| *id == own) {
            let text = String::from("there is no other voter: add one first");
            return Err(MemberError::Rejected(text));
        }
        let successor = self.wait_for_successor(to).await?;
        let mut leadership = self.leadership();
        let raft = self.inner.raft.clone();
        let begin = async move { raft.trigger().transfer_leader(successor).await };
        let begun = detach_on_drop(begin).await;
        begun.map_err(|fatal| MemberError::Stopped(self.stop_text(&fatal)))?;
        let moved = leadership.wait_for(|l| l.leader.as_ref().is_some_and(|(id, _)| *id != own));
        let leader = match timeout(TRANSFER_ELECTION_TIMEOUT, moved).await {
            Ok(Ok(l)) => l.leader.clone(),
            _ => None,
        };
        let text = "no other store became leader in time: see `seqsvr member list`, then repeat the command";
        let leader = leader.ok_or_else(|| MemberError::Unfinished(String::from(text)))?;
        tracing::info!(from = own, to = leader.0, "leadership transferred");
        Ok(leader)
    }

    /// Returns the requested voter, or the best one, once it answers and has almost all entries.
    async fn wait_for_successor(&self, to: Option<u64>) -> Result<u64, MemberError> {
        let own = self.identity().node;
        let deadline = Instant::now() + SUCCESSOR_TIMEOUT;
        loop {
            let voters = self.current_members().voters;
            let matched = self.matched_indexes();
            if matched.is_empty() {
                return Err(self.not_leader_error());
            }
            let last = self.counters().last_log_index;
            let may = matched.iter().filter(|(id, matched)| {
                **id != own
                    && to.is_none_or(|to| to == **id)
                    && voters.contains(*id)
                    && **matched + CAUGHT_UP_LAG_MAX >= last
                    && self.is_responsive(**id)
            });
            if let Some((id, _)) = may.max_by_key(|(_, matched)| **matched) {
                return Ok(*id);
            }
            if Instant::now() >= deadline {
                let who = to.map_or_else(
                    || String::from("no other voter"),
                    |id| format!("store {id}"),
                );
                return Err(MemberError::Rejected(format!(
                    "{who} cannot lead now: it does not answer, or lags behind by more than {CAUGHT_UP_LAG_MAX} entries. See `seqsvr member list`, and choose another or wait"
                )));
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}
