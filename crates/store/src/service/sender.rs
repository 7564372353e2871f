//! Checks whether the AllocSvr that sends a request may make it, by its certificate.
//!
//! Invariant: the session of an AllocSvr, and the sections in its slots, change only by requests of
//! that AllocSvr. The state applies a command by slot, epoch and generation, which everybody who
//! reads the state can learn. So the leader checks the sender before a command is proposed. A slot
//! at an epoch belongs to one session permanently, so what was the sender's when it was proposed is
//! no other AllocSvr's when it applies.
//!
//! Schedules that break it:
//! - *A forged close.* AllocSvr a2 reads slot, epoch and generation of a section of a1, and submits
//!   that the section was closed at 0. The state lowers its max_seq. a1 opens the section again and
//!   hands out the same numbers.
//! - *An epoch to come.* A slot at epoch 4 moves to a1. a2 submits the close for epoch 5. If the
//!   leader proposed it, because no session owns the slot at epoch 5 yet, it could wait in the
//!   queue and apply after the move. So the leader waits until it has applied that epoch, then
//!   judges; and it rejects an epoch that does not come.
//! - *A leader that lags.* A leader has not applied the entry that opened a session, or that gave
//!   it a slot. If it judged now, it would reject the holder of that session. So it waits until it
//!   has applied what earlier leaders committed.
//!
//! A connection without TLS has no identity. Everything is allowed there: the store listens on
//! loopback, or runs with `--insecure`.

use std::time::Duration;

use seqsvr_core::command::{Command, CommandRejection, Fence};
use seqsvr_core::ids::{Epoch, SessionId, Slot};
use seqsvr_core::state::State;
use seqsvr_net::{PeerCertificate, caller_of};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};
use tokio::time::timeout;
use tonic::Extensions;

use crate::context::StoreContext;
use crate::rpc_errors;

/// Maximum time for the epochs of a request to be applied; after it the leader rejects what names
/// them.
const EPOCH_TIMEOUT: Duration = Duration::from_millis(500);

/// Sender of a request; without TLS, any.
pub(super) struct Sender(Option<PeerCertificate>);

impl Sender {
    /// Returns the sender of a call.
    ///
    /// # Errors
    /// Its certificate has no identity.
    pub(super) fn identify(extensions: &Extensions) -> Result<Sender, RpcError> {
        Ok(Sender(caller_of(extensions).certificate()?.cloned()))
    }

    /// Returns the name that its sessions have; None: they may have any.
    fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|own| own.identity().name())
    }
}

/// Checks the name and the address under which an AllocSvr registers.
///
/// # Errors
/// They are not those of its certificate.
pub(super) fn check_registration(
    sender: &Sender,
    name: &str,
    address: &str,
) -> Result<(), RpcError> {
    let Sender(Some(own)) = sender else {
        return Ok(());
    };
    let denied = |text| Err(RpcError::new(Reason::PermissionDenied, text));
    let identity = own.identity();
    if identity.name() != name {
        return denied(format!(
            "the certificate of this AllocSvr is for {identity}, not for the name {name:?}; start it with --name {}, or with the certificate of {name:?}",
            identity.name()
        ));
    }
    match own.check_address(address) {
        Ok(()) => Ok(()),
        Err(why) => denied(format!(
            "{why}; make one with `--host` for each host in --advertise"
        )),
    }
}

/// Checks that a session is the sender's.
///
/// # Errors
/// SESSION_NOT_FOUND, with the same text for the session of another AllocSvr and for one that does
/// not exist; or this node does not lead.
pub(super) async fn check_session(
    context: &StoreContext,
    sender: &Sender,
    session: SessionId,
) -> Result<(), RpcError> {
    let Some(name) = sender.name() else {
        return Ok(());
    };
    let term = context.require_leader()?;
    context.wait_until_ready(term).await?;
    match context.node.with_state(|state| is_of(state, session, name)) {
        true => Ok(()),
        false => Err(rpc_errors::session_not_found(session.0)),
    }
}

/// Waits until this leader can judge a request: everything committed before its term is applied
/// here, then the epochs that the request names, at most [`EPOCH_TIMEOUT`]. After that
/// [`judge_slot`] rejects what names them.
///
/// # Errors
/// This node does not lead in that term, or has not applied what came before it in time.
pub(super) async fn wait_for_epochs<'a>(
    context: &StoreContext,
    sender: &Sender,
    term: u64,
    fences: impl Iterator<Item = &'a v1::Fence> + Clone,
) -> Result<(), RpcError> {
    if sender.name().is_none() {
        return Ok(());
    }
    context.wait_until_ready(term).await?;
    let mut applied = context.node.watch_applied();
    let applying = async {
        loop {
            // Read before the state, so that no change between both is missed.
            let version = applied.borrow().table_version;
            let are_applied = |state: &State| have_come(state, fences.clone());
            // An epoch changes with the table only.
            if context.node.with_state(are_applied)
                || applied
                    .wait_for(|position| position.table_version != version)
                    .await
                    .is_err()
            {
                return;
            }
        }
    };
    // After the time is over, the judgment rejects what is not applied.
    let _ = timeout(EPOCH_TIMEOUT, applying).await;
    Ok(())
}

/// Returns whether each epoch is applied. One of a slot that does not exist never comes, so there
/// is nothing to wait for.
fn have_come<'a>(state: &State, mut fences: impl Iterator<Item = &'a v1::Fence>) -> bool {
    let slots = state.slots();
    fences.all(|fence| {
        let row = slots.get(fence.slot as usize);
        row.is_none_or(|row| row.epoch.0 >= fence.epoch)
    })
}

/// Returns why a section command is not the sender's; None: it may be proposed.
pub(super) fn judge_command(
    state: &State,
    sender: &Sender,
    command: &Command,
) -> Option<CommandRejection> {
    let fence = match command {
        Command::Open { fence, .. }
        | Command::Raise { fence, .. }
        | Command::CloseSection { fence, .. } => fence,
        _ => return Some(CommandRejection::Invalid("no section command".to_owned())),
    };
    let Fence { slot, epoch, .. } = *fence;
    judge_slot(state, sender, slot, epoch)
}

/// Returns why a slot is not the sender's at an epoch; None: it is.
pub(super) fn judge_slot(
    state: &State,
    sender: &Sender,
    slot: Slot,
    epoch: Epoch,
) -> Option<CommandRejection> {
    if seqsvr_core::planted!(TrustAnySender) {
        return None;
    }
    judge_name(state, sender.name()?, slot, epoch)
}

fn judge_name(state: &State, name: &str, slot: Slot, epoch: Epoch) -> Option<CommandRejection> {
    let Some(row) = state.slots().get(usize::from(slot.0)) else {
        let text = format!("there is no slot {slot}");
        return Some(CommandRejection::Invalid(text));
    };
    let is_own = row.epoch == epoch && row.owner.is_some_and(|id| is_of(state, id, name));
    if is_own {
        return None;
    }
    seqsvr_core::reached!("store: a command of another AllocSvr was rejected");
    Some(CommandRejection::NotOwner {
        slot,
        epoch: row.epoch,
        owner: row.owner,
    })
}

/// Returns whether a session lives and has this name.
fn is_of(state: &State, session: SessionId, name: &str) -> bool {
    let found = state.session(session);
    found.is_some_and(|session| session.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use seqsvr_core::command::{Batch, OpenSession};
    use seqsvr_core::ids::{ClusterId, Nonce};
    use seqsvr_net::tls::{PeerIdentity, Role};
    use seqsvr_raft::GroupMember;

    use super::*;
    use crate::options::Options;
    use crate::store_server::StoreServer;

    fn apply(state: &mut State, command: Command) {
        let commands = vec![command];
        state.apply(1, &Batch { commands }, &mut BTreeSet::new());
    }

    /// Returns a state in which a1 has slot 0 and a2 has slot 1, both at epoch 1.
    fn two_owners() -> State {
        let mut state = State::default();
        apply(
            &mut state,
            Command::Init {
                cluster: ClusterId(1),
                lease_ms: 3_000,
                slots: 2,
            },
        );
        for (slot, name) in ["a1", "a2"].into_iter().enumerate() {
            let open = OpenSession {
                name: name.to_owned(),
                address: format!("{name}:7700"),
                incarnation: 1,
                nonce: Nonce(1 + slot as u128),
                proof: None,
            };
            apply(&mut state, Command::OpenSession(open));
            let (to, _) = state.find_session(name).unwrap();
            let (slot, from) = (Slot(slot as u16), Epoch(0));
            apply(&mut state, Command::Assign { slot, from, to });
        }
        state
    }

    fn is_own(state: &State, name: &str, slot: u16, epoch: u64) -> bool {
        judge_name(state, name, Slot(slot), Epoch(epoch)).is_none()
    }

    /// Schedule: a command for an epoch to come is proposed, because no session owns the slot at
    /// that epoch yet. It applies after another AllocSvr has got the slot at that epoch.
    #[test]
    fn slot_is_own_at_its_applied_epoch_only() {
        let mut state = two_owners();
        for (name, slot, epoch, expected) in [
            ("a1", 0, 1, true),
            ("a2", 1, 1, true),
            ("a2", 0, 1, false),
            ("a1", 0, 0, false),
            ("a1", 0, 2, false),
            ("a2", 0, 2, false),
            ("a1", 2, 1, false),
            ("a3", 0, 1, false),
        ] {
            let own = is_own(&state, name, slot, epoch);
            assert_eq!(own, expected, "{name} {slot} {epoch}");
        }
        let (to, _) = state.find_session("a2").unwrap();
        apply(
            &mut state,
            Command::MoveSlot {
                slot: Slot(0),
                epoch: Epoch(1),
                high_water_marks: Vec::new(),
                to: Some(to),
            },
        );
        assert!(is_own(&state, "a2", 0, 2), "its new owner");
        assert!(!is_own(&state, "a1", 0, 2), "its former owner");
        assert!(!is_own(&state, "a1", 0, 1), "its former epoch");
        apply(
            &mut state,
            Command::CloseSession {
                session: to,
                high_water_marks: Vec::new(),
                last: true,
            },
        );
        for epoch in 1..=4 {
            assert!(!is_own(&state, "a2", 0, epoch), "a free slot at {epoch}");
        }
    }

    #[test]
    fn only_epochs_that_can_come_are_awaited() {
        let state = two_owners();
        for (slot, epoch, expected) in [(0, 0, true), (0, 1, true), (0, 2, false), (2, 1, true)] {
            let fence = v1::Fence {
                slot,
                epoch,
                ..v1::Fence::default()
            };
            let come = have_come(&state, [&fence].into_iter());
            assert_eq!(come, expected, "{slot} {epoch}");
        }
    }

    /// Schedule: a leader that lags, see the head of this file. It has not applied the first entry
    /// of its term.
    #[tokio::test]
    async fn leader_judges_nothing_before_its_term_is_applied() {
        let dir = tempfile::tempdir().unwrap();
        let any_port = ([127, 0, 0, 1], 0).into();
        let options = Options::new(1, any_port, dir.path().join("data"));
        let server = StoreServer::start(options).await.unwrap();
        let context = &server.context;
        let only = GroupMember {
            id: 1,
            address: context.address.clone(),
            incarnation: context.node.identity().incarnation,
            is_voter: true,
        };
        let creating = context
            .node
            .create_cluster(vec![only], ClusterId(7), 60_000, 2);
        creating.await.unwrap();
        let mut leadership = context.node.leadership();
        let ready = leadership.wait_for(|l| l.ready_term.is_some()).await;
        let term = ready.unwrap().term;

        let identity = PeerIdentity::new("p", Role::Alloc, "a1").unwrap();
        let sender = Sender(Some(PeerCertificate::new(identity, Vec::new())));
        for (term, expected) in [(term, None), (term + 1, Some(Reason::NotLeader))] {
            let waited = wait_for_epochs(context, &sender, term, [].into_iter()).await;
            assert_eq!(waited.err().map(|e| e.reason()), expected);
        }
        server.shutdown().await;
    }
}
