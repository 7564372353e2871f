//! Checks of calls and answers before openraft gets them: votes, the processes that use them, and
//! checkpoints of the state. The rules are in `duplicate_id.rs` and `checkpoints.rs`.

use std::collections::BTreeSet;

#[cfg(sim)]
use seqsvr_core::planted;
use seqsvr_proto::v1::{RaftCheckpoint, RaftRejectionReason};
use tonic::Status;

use super::{IdentityCheck, rejection_status};
use crate::error::Error;
use crate::rpc::duplicate_id::{VoteClaim, VoteSource, proves_duplicate};
use crate::state::checkpoints::{self, DigestAgreement};
use crate::types::Vote;

/// Returns whether a bug is planted that lets in every vote.
#[cfg(sim)]
fn is_vote_check_disabled() -> bool {
    planted!(ForgetSenders) || planted!(TrustCopies)
}

#[cfg(not(sim))]
const fn is_vote_check_disabled() -> bool {
    false
}

impl IdentityCheck {
    /// Checks a vote before openraft does, and ends this node if the vote proves that another
    /// process has its id.
    ///
    /// # Errors
    /// Why this node ends.
    pub(crate) fn check_vote(&self, vote: &Vote, source: VoteSource) -> Result<(), String> {
        // A node without a log has shut down.
        let Some(log) = self.log.upgrade() else {
            return Ok(());
        };
        let node = self.identity().node;
        if is_vote_check_disabled() {
            return Ok(());
        }
        if !proves_duplicate(node, log.extent().vote.as_ref(), vote, source) {
            return Ok(());
        }
        Err(self.stop_as_duplicate(vote.leader_id.term))
    }

    /// Lets in one process for each vote.
    pub(crate) fn claim_vote(
        &self,
        vote: &Vote,
        process: u64,
        call: VoteClaim,
    ) -> Result<(), Status> {
        if process == 0 || is_vote_check_disabled() {
            return Ok(());
        }
        if call == VoteClaim::Vote && !self.vote_owners.has_owner(vote) {
            let log = self.log.upgrade();
            let saved = log.and_then(|log| log.extent().vote);
            if saved.is_some_and(|saved| saved.leader_id == vote.leader_id) {
                return Err(Status::unavailable(
                    "this vote was granted before this store started; campaign for a new term",
                ));
            }
        }
        match self.vote_owners.claim(vote, process) {
            true => Ok(()),
            false => Err(rejection_status(
                RaftRejectionReason::AnotherProcess,
                &self.identity(),
            )),
        }
    }

    /// Ends this node because another process used the vote that is this node's own.
    pub(crate) fn stop_as_vote_duplicate(&self) {
        let saved = self.log.upgrade().and_then(|log| log.extent().vote);
        self.stop_as_duplicate(saved.map_or(0, |vote| vote.leader_id.term));
    }

    /// Ends this node because another process has its id.
    pub(crate) fn stop_as_duplicate(&self, term: u64) -> String {
        let why = Error::Twin {
            node: self.identity().node,
            term,
            dir: self.data_dir.clone(),
        };
        self.stop_node(why.to_string());
        why.to_string()
    }

    /// Returns this node's newest checkpoint, as a leader sends it.
    pub(crate) fn newest_checkpoint(&self) -> Option<RaftCheckpoint> {
        let (index, digest) = self.shared.checkpoints.newest_checkpoint()?;
        self.digest_poll.record(index, self.identity().node, digest);
        let agreement = self
            .digest_poll
            .evaluate(index, digest, &self.applied_voters());
        let agreed = agreement == DigestAgreement::Agreed;
        Some(checkpoints::to_message(index, digest, agreed))
    }

    /// Returns this node's digest at a leader's checkpoint. Ends this node if a majority has
    /// another one.
    ///
    /// # Errors
    /// Why this node ends.
    pub(crate) fn compare_checkpoint(
        &self,
        theirs: &RaftCheckpoint,
    ) -> Result<Option<RaftCheckpoint>, String> {
        let Some(own) = self.shared.checkpoints.digest_at(theirs.index) else {
            return Ok(None);
        };
        if theirs.agreed
            && checkpoints::digest_from_message(theirs).is_some_and(|digest| digest != own)
        {
            return Err(self.stop_as_diverged(theirs.index));
        }
        Ok(Some(checkpoints::to_message(theirs.index, own, false)))
    }

    /// Counts another node's digest at this leader's checkpoint. Ends this node if a majority has
    /// another one than this node.
    ///
    /// # Errors
    /// Why this node ends.
    pub(crate) fn count_checkpoint(
        &self,
        node: u64,
        theirs: &RaftCheckpoint,
    ) -> Result<(), String> {
        let own = self.shared.checkpoints.digest_at(theirs.index);
        let (Some(own), Some(digest)) = (own, checkpoints::digest_from_message(theirs)) else {
            return Ok(());
        };
        self.digest_poll.record(theirs.index, node, digest);
        let agreement = self
            .digest_poll
            .evaluate(theirs.index, own, &self.applied_voters());
        if agreement == DigestAgreement::Outvoted {
            return Err(self.stop_as_diverged(theirs.index));
        }
        if digest != own && self.log_throttle.allow() {
            tracing::error!(
                node = self.identity().node,
                other = node,
                index = theirs.index,
                majority = agreement == DigestAgreement::Agreed,
                "the states of two stores differ at the same entry"
            );
        }
        Ok(())
    }

    fn stop_as_diverged(&self, index: u64) -> String {
        let why = Error::Diverged {
            node: self.identity().node,
            index,
            dir: self.data_dir.clone(),
        };
        self.stop_node(why.to_string());
        why.to_string()
    }

    fn applied_voters(&self) -> BTreeSet<u64> {
        let applied = self.shared.applied.read();
        applied.membership.membership().voter_ids().collect()
    }
}
