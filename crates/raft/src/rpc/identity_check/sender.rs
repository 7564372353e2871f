//! Checks the sender of each call of Raft.
//!
//! Invariant, from format level 2 on: a call has an effect only if its sender is the data directory
//! that the membership records for the sender's id, or a node that this membership does not hold
//! yet. Schedule that breaks Raft without it (openraft 0.10.0-alpha.37): store 3 leads term t and
//! is cut off; store 1 wins term t + 1. Store 3 is removed and another directory joins as store 3,
//! which later leads term t + 5; the old store 3 is reachable again. Its heartbeat is answered with
//! the higher vote (t + 5, 3, committed). It finds its own id there and becomes leader of term t +
//! 5 without an election. The others accept its appends, because they identify leaders by id only,
//! and acknowledge entries that they never stored.
//!
//! The check uses the *applied* membership. Its entries are committed, and from level 2 on an id
//! belongs to one incarnation permanently (`next_store`). So a mismatch is never a matter of time.
//! Schedule that stops a healthy node if the check used the log's last membership: a follower holds
//! an uncommitted entry that adds store 9 with one directory. Another leader adds store 9 with
//! another directory. The follower would reject the leader that could correct its log.
//!
//! Two senders are let in without a record of them:
//! - any sender while this node's state is at level 1, since builds of level 1 do not send their
//!   incarnation;
//! - an id at or above `next_store`, which was added after what this node has applied. A node that
//!   joins, or was down for long, is brought up to date by such a leader.
//!
//! Under TLS a sender also needs a certificate for the host of the address that the membership
//! records for its id. Schedule that breaks it: the key of store 2 is stolen. Its holder calls the
//! other stores as store 3, with the votes and entries of a leader that store 3 never was. A sender
//! that is let in without a record needs a certificate of a store only: this node knows no address
//! that it could check. That gives the holder of a store's key nothing that it does not have as the
//! member that it is, since a member that lies about its log wins elections.

use seqsvr_core::planted;
use seqsvr_net::PeerCertificate;
use seqsvr_proto::v1::RaftRejectionReason;

use crate::state::applied_state::AppliedState;

/// Returns why a sender's calls are rejected; None if they are let in.
pub(crate) fn reject_sender(
    applied: &AppliedState,
    sender: u64,
    incarnation: Option<u64>,
) -> Option<RaftRejectionReason> {
    if planted!(ForgetSenders) {
        return None;
    }
    let next_store = applied.state.next_store()?;
    match applied.membership.membership().get_node(&sender) {
        Some(recorded) if incarnation == Some(recorded.incarnation) => None,
        Some(_) => Some(RaftRejectionReason::WrongSender),
        None if sender < next_store => Some(RaftRejectionReason::Removed),
        None => None,
    }
}

/// Checks that the certificate of a caller is for the host of the member that it says to be.
///
/// # Errors
/// It is for others; the text names them.
pub(crate) fn check_certificate(
    applied: &AppliedState,
    sender: u64,
    certificate: Option<&PeerCertificate>,
) -> Result<(), String> {
    let recorded = applied.membership.membership().get_node(&sender);
    match (certificate, recorded) {
        (Some(certificate), Some(recorded)) => certificate
            .check_address(&recorded.address)
            .map_err(|why| format!("the caller says to be store {sender}, but {why}")),
        // Without TLS, or not known yet.
        (None, _) | (_, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use openraft::StoredMembership;
    use seqsvr_core::command::{Batch, Command};
    use seqsvr_core::ids::ClusterId;
    use seqsvr_core::state::State;

    use super::*;
    use crate::types::Peer;

    /// Members 1 and 3; 2 was removed.
    fn applied(level: u32) -> AppliedState {
        let init = Command::Init {
            cluster: ClusterId(1),
            lease_ms: 3_000,
            slots: 1,
        };
        let commands = vec![init, Command::SetLevel { level }];
        let (mut state, mut touched) = (State::default(), BTreeSet::new());
        state.apply(1, &Batch { commands }, &mut touched);
        state.record_store_id(3, &mut touched);
        let peer = |id| Peer {
            address: format!("10.0.0.{id}:1"),
            incarnation: 100 + id,
        };
        let peers: BTreeMap<u64, Peer> = [1, 3].map(|id| (id, peer(id))).into();
        let members = StoredMembership::new(None, openraft::Membership::from(peers));
        AppliedState::new(state, None, members).unwrap()
    }

    #[test]
    fn sender_from_level_2_on_must_match_recorded_incarnation() {
        let two = applied(2);
        for (sender, incarnation, expected) in [
            (1, Some(101), None),
            (3, Some(103), None),
            (3, Some(7), Some(RaftRejectionReason::WrongSender)),
            (3, None, Some(RaftRejectionReason::WrongSender)),
            (2, Some(102), Some(RaftRejectionReason::Removed)),
            (2, None, Some(RaftRejectionReason::Removed)),
            // Not known yet.
            (4, Some(104), None),
            (9, None, None),
        ] {
            assert_eq!(reject_sender(&two, sender, incarnation), expected);
            assert_eq!(reject_sender(&applied(1), sender, incarnation), None);
        }
    }
}
