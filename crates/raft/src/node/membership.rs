//! Changes the members while the group works: one node added, one node removed.
//!
//! Invariant: a change is one log entry that adds or removes at most one voter. It is made from the
//! last membership, which is committed, by a leader that has committed an entry of its own term. A
//! node becomes a voter only with the log of the others in it. A voter is removed only if a
//! majority of those left answers.
//!
//! Schedules that break the group without it:
//! - *Two voters at once*: majorities of the old and the new members need not meet; two leaders.
//! - *Made from an older membership* (two changes at a time, or a leader that has not yet seen what
//!   its predecessor appended): {1,2,3} -> {1,2,3,4} at one leader and {1,2,3} -> {1,2} at the next
//!   have majorities {3,4,..} and {1,2} that need not meet. Hence the precondition on the last
//!   membership's log id, and openraft's check of the own term's committed entry
//!   (`RaftCore::append_membership`, `ensure_leader_log_committed`).
//! - *A voter with an empty log*: no number is lost, but of {1,2,3,4} with 4 empty and 3 dead no
//!   majority can commit until 4 has everything. Hence learner first.
//! - *A living voter removed while another is dead*: of {1,2,3} with 3 dead, removing 2 leaves
//!   {1,3}, which never commits again, not even to add 2 back.
//! - *An id that was used before* (from format level 2 on, which records it): a stale leader finds
//!   its own id in a newer vote and leads again without an election, see `sender.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::{Instant as _, Membership, Precondition};
use seqsvr_core::planted;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, timeout};

use super::RaftNode;
use crate::detach_on_drop::detach_on_drop;
use crate::error::MemberError;
use crate::limits::{ADDRESS_BYTES_MAX, MEMBERS_MAX};
use crate::node::leadership::NodeMetrics;
use crate::types::{LogId, Payload, Peer};

/// Time in which a quorum must commit one entry.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which one call waits for a learner to catch up; the next call continues.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(50);
/// Entries that a member may lag behind and still count as caught up.
pub(super) const CAUGHT_UP_LAG_MAX: u64 = 64;
/// Time without an acknowledgement after which a member counts as dead.
const MEMBER_SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which a new learner may stay silent.
const LEARNER_SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the log reports the progress of a learner.
const PROGRESS_LOG_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which an awaited condition is checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The members at one moment, and the log entry that holds them.
#[derive(Clone)]
pub(super) struct GroupMembers {
    log_id: Option<LogId>,
    pub(super) peers: BTreeMap<u64, Peer>,
    pub(super) voters: BTreeSet<u64>,
}

impl GroupMembers {
    /// Rejects this node as a new member if there is a reason against it.
    fn check_new_member(
        &self,
        id: u64,
        candidate: &Peer,
        next_store: u64,
    ) -> Result<(), MemberError> {
        let refuse = |text: String| Err(MemberError::Rejected(text));
        if id == 0 || candidate.address.is_empty() || candidate.address.len() > ADDRESS_BYTES_MAX {
            return refuse(format!(
                "an id is above 0, an address has 1 to {ADDRESS_BYTES_MAX} bytes"
            ));
        }
        let above = self.peers.keys().max().map_or(1, |max| max + 1);
        let free = above.max(next_store).max(id.saturating_add(1));
        match self.peers.get(&id) {
            Some(known) if known == candidate => return Ok(()),
            Some(known) if known.incarnation == candidate.incarnation => {
                return refuse(format!(
                    "store {id} is a member at {}, and its address cannot change: start it there, or remove it and add a store with an empty data directory under another id",
                    known.address
                ));
            }
            Some(_) => {
                return refuse(format!(
                    "store {id} is a member with another data directory: the one at {} was wiped, replaced or exchanged with another. It may have lost what it acknowledged, so it stays out, and ids are never reused. Bring the old directory back; or run `seqsvr member remove {id}`, start with an empty --data-dir and a new --id, such as {free}, and run `seqsvr member add {free}={}`",
                    candidate.address, candidate.address
                ));
            }
            None => {}
        }
        let same_address = |(_, peer): &(&u64, &Peer)| peer.address == candidate.address;
        if let Some((other, _)) = self.peers.iter().find(same_address) {
            return refuse(format!(
                "{} is the address of member {other}: give the new store one of its own, or remove {other} first",
                candidate.address
            ));
        }
        if id < next_store && !planted!(ForgetSenders) {
            return refuse(format!(
                "store id {id} may have been used before, and ids are never reused: the lowest id that was never used is {next_store}. Start the new store with an empty --data-dir and a new --id, such as {next_store}, and run `seqsvr member add {next_store}={}`",
                candidate.address
            ));
        }
        if self.peers.len() >= MEMBERS_MAX {
            return refuse(format!(
                "the cluster has {} members, the most there may be: remove one first",
                self.peers.len()
            ));
        }
        Ok(())
    }
}

impl RaftNode {
    /// Adds the node that runs at `address` on the data directory of that incarnation: as a learner
    /// first, and as a voter once it has caught up. Only the leader does it. A node that is already
    /// a member is answered as done; for a node that is already a learner the call waits.
    ///
    /// Waits at most about a minute. Dropping the future stops after the step under way; the same
    /// call continues later.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn add_member(
        &self,
        id: u64,
        address: &str,
        incarnation: u64,
    ) -> Result<(), MemberError> {
        let _change = self.begin_change().await?;
        let candidate = Peer {
            address: address.to_owned(),
            incarnation,
        };
        let mut group = self.current_members();
        // Everything committed before the call is applied here, so the mark covers every member
        // that was added and removed again.
        let next_store = self.with_state(|state| state.next_store().unwrap_or(1));
        group.check_new_member(id, &candidate, next_store)?;
        if group.voters.contains(&id) {
            return Ok(());
        }
        if !group.peers.contains_key(&id) {
            let mut with = group.clone();
            with.peers.insert(id, candidate);
            self.append_membership(&group, with).await?;
            tracing::info!(node = id, address, "added as a learner");
            group = self.current_members();
        }
        self.wait_for_catch_up(id, address).await?;
        let mut with = group.clone();
        with.voters.insert(id);
        self.append_membership(&group, with).await?;
        tracing::info!(node = id, address, "learner caught up and votes now");
        Ok(())
    }

    /// Removes a member, dead or alive. Only the leader does it. A leader that must remove itself
    /// hands the leadership over and returns [`MemberError::NotLeader`], so that the caller calls
    /// its successor. A node that is no member is answered as done.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn remove_member(&self, id: u64) -> Result<(), MemberError> {
        let _change = self.begin_change().await?;
        let group = self.current_members();
        if !group.peers.contains_key(&id) {
            return Ok(());
        }
        let mut rest = group.clone();
        rest.peers.remove(&id);
        if rest.voters.remove(&id) {
            self.check_remaining_quorum(id, &rest).await?;
        }
        if id == self.identity().node {
            let leader = Some(self.transfer_to(None).await?);
            return Err(MemberError::NotLeader { leader });
        }
        self.append_membership(&group, rest).await?;
        tracing::info!(node = id, "removed from the cluster");
        Ok(())
    }

    /// Returns whether this node leads, a quorum answers it, and that node is certainly no member.
    pub(crate) fn has_removed(&self, id: u64) -> bool {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let committed = &metrics.committed_membership_config;
        // A leader that is the only voter is its own quorum; openraft then counts no answers.
        let alone = committed.membership().voter_ids().eq([metrics.id]);
        let acked = metrics.last_quorum_acked.as_ref();
        let heard = alone || acked.is_some_and(|at| at.elapsed() < self.inner.confirm_timeout);
        metrics.current_leader == Some(metrics.id)
            && heard
            && committed.log_id() == metrics.membership_config.log_id()
            && committed.membership().get_node(&id).is_none()
    }

    /// Lets in one change at a time, and only where it can be made.
    pub(super) async fn begin_change(&self) -> Result<[MutexGuard<'_, ()>; 2], MemberError> {
        let one = self.inner.change_lock.try_lock();
        let one = one.map_err(|_| MemberError::Busy)?;
        // Bounded: an attempt to raise the level gives up within seconds.
        let no_raise = self.inner.raise_lock.lock().await;
        self.confirm_leadership().await?;
        Ok([one, no_raise])
    }

    pub(super) fn current_members(&self) -> GroupMembers {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let stored = &metrics.membership_config;
        let peers = stored.membership().nodes();
        GroupMembers {
            log_id: *stored.log_id(),
            peers: peers.map(|(id, peer)| (*id, peer.clone())).collect(),
            voters: stored.membership().voter_ids().collect(),
        }
    }

    /// Returns whether a member has acknowledged something recently; this node has.
    pub(super) fn is_responsive(&self, id: u64) -> bool {
        let heard = self.last_ack_age(id);
        id == self.identity().node || heard.is_some_and(|ago| ago < MEMBER_SILENCE_TIMEOUT)
    }

    /// Returns the time since the sending of the last call that another member acknowledged; None
    /// if there is none in this term, or this node does not lead.
    pub fn last_ack_age(&self, id: u64) -> Option<Duration> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let at = metrics.heartbeat.as_ref()?.get(&id)?.as_ref()?;
        Some(at.elapsed())
    }

    pub(super) fn not_leader_error(&self) -> MemberError {
        let leader = self.leadership().borrow().leader.clone();
        MemberError::NotLeader { leader }
    }

    /// Waits until a majority of the remaining voters answers; a new leader has no answers yet.
    async fn check_remaining_quorum(
        &self,
        id: u64,
        rest: &GroupMembers,
    ) -> Result<(), MemberError> {
        if rest.voters.is_empty() {
            let text = format!("store {id} is the last voter: add another one first");
            return Err(MemberError::Rejected(text));
        }
        let deadline = Instant::now() + MEMBER_SILENCE_TIMEOUT;
        loop {
            let silent = rest.voters.iter().filter(|v| !self.is_responsive(**v));
            let silent: Vec<String> = silent.map(u64::to_string).collect();
            if 2 * silent.len() < rest.voters.len() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let silent = silent.join(", ");
                return Err(MemberError::Rejected(format!(
                    "without store {id} the cluster would lose its quorum: too many of the remaining stores do not answer ({silent}). Start them, or remove them first"
                )));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    async fn wait_for_catch_up(&self, id: u64, address: &str) -> Result<(), MemberError> {
        let goal = self
            .current_members()
            .log_id
            .map_or(0, |log_id| log_id.index);
        let started = Instant::now();
        let mut last_logged = started;
        loop {
            let Some(matched) = self.matched_indexes().get(&id).copied() else {
                return Err(self.not_leader_error());
            };
            let last = self.counters().last_log_index;
            if matched >= goal && matched + CAUGHT_UP_LAG_MAX >= last {
                return Ok(());
            }
            let waited = started.elapsed();
            if waited > LEARNER_SILENCE_TIMEOUT
                && self
                    .last_ack_age(id)
                    .is_none_or(|ago| ago > LEARNER_SILENCE_TIMEOUT)
            {
                return Err(MemberError::Rejected(format!(
                    "store {id} at {address} does not answer the leader: it is a learner now and has no vote. See its log and that {address} can be reached from the other stores, then repeat the command, or run `seqsvr member remove {id}`"
                )));
            }
            if waited > CATCH_UP_TIMEOUT {
                return Err(MemberError::Unfinished(format!(
                    "store {id} is still catching up (entry {matched} of {last}): it is a learner now and has no vote. Repeat the command to wait for it"
                )));
            }
            if last_logged.elapsed() > PROGRESS_LOG_INTERVAL {
                last_logged = Instant::now();
                tracing::info!(node = id, matched, last, "learner is catching up");
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Appends one membership on top of the one it was made from. Then waits until this node has
    /// it, too: openraft answers first, and only then reports the nodes it replicates to.
    async fn append_membership(
        &self,
        from: &GroupMembers,
        to: GroupMembers,
    ) -> Result<(), MemberError> {
        let unfinished = |why: &dyn std::fmt::Display| {
            let text = format!(
                "the members were not changed, or it is not known yet ({why}): see `seqsvr member list`, then repeat the command"
            );
            MemberError::Unfinished(text)
        };
        let membership = Membership::new(vec![to.voters], to.peers).map_err(|e| unfinished(&e))?;
        let last = Precondition::LastMembershipLogId {
            last_membership_log_id: from.log_id,
        };
        let raft = self.inner.raft.clone();
        let write = async move {
            let payload = Payload::Blank;
            let written = raft.append_membership(membership, payload, [last]).await?;
            let mut metrics = raft.metrics();
            let known = |metrics: &NodeMetrics| *metrics.membership_config.log_id();
            while known(&metrics.borrow_watched()) < Some(written.log_id) {
                if metrics.changed().await.is_err() {
                    break;
                }
            }
            Ok(written)
        };
        match timeout(COMMIT_TIMEOUT, detach_on_drop(write)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {
                Err(self.not_leader_error())
            }
            Ok(Err(RaftError::APIError(other))) => Err(unfinished(&other)),
            Ok(Err(RaftError::Fatal(fatal))) => Err(MemberError::Stopped(self.stop_text(&fatal))),
            Err(_) => Err(unfinished(&"no majority of the voters answers")),
        }
    }
}
