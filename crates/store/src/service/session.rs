//! Opening and closing sessions.
//!
//! Invariant: of the living sessions that a holder has received, no two have one address. Callers
//! of a slot are sent to the address of its owner's session. The state allows several sessions at
//! an address, so the leader opens a session first and compares it in the applied state. If an
//! older session of another name has the address, the leader closes the new one, and the holder
//! gets an error instead of the session. So it renews nothing, and gets no slot.
//!
//! Ids rise in the order in which the log applies, so all stores agree which of two sessions is the
//! older one. Schedules that break a check that is made only before the command is proposed:
//! - *Two at the same time.* Neither is applied when the other one is checked.
//! - *Proposed in another term.* The check passes in term 1, and the command waits in the queue. In
//!   term 2 another leader opens a session at the address. This node leads again in term 3 and
//!   proposes the command. A set of the addresses of opens in flight has the same gap.
//! - *An outcome that comes late.* The caller receives that the outcome is unknown, or hangs up.
//!   The entry is applied after the next check.
//!
//! The check before the proposal only keeps rejected attempts out of the log. If the leader stops
//! or the caller hangs up between both steps, a session without a holder is left: it expires after
//! W, and a retry with its nonce is compared again.
//!
//! Invariant: a close that was done is answered as done when it is repeated, also under TLS.
//! Schedule that breaks it: the close applies, and the leader dies before it answers. The AllocSvr
//! repeats the close at the next leader, which finds no session of that AllocSvr.

use seqsvr_core::command::{Command, HIGH_WATER_MARKS_MAX, OpenSession, Reply, SessionProof};
use seqsvr_core::ids::{Nonce, SessionId};
use seqsvr_core::state::State;
use seqsvr_proto::convert::{high_water_mark_from, u128_from};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason};

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::service::sender::{Sender, check_registration, check_session};

pub(super) async fn open_session(
    context: &StoreContext,
    request: v1::OpenSessionRequest,
    sender: Sender,
) -> Result<v1::OpenSessionResponse, RpcError> {
    let proof = match (request.proof_session, request.proof_nonce.is_empty()) {
        (None, true) => None,
        (Some(session), false) => Some(SessionProof {
            session: SessionId(session),
            nonce: Nonce(u128_from(&request.proof_nonce, "proof nonce: 16 bytes")?),
        }),
        _ => {
            return Err(rpc_errors::invalid_request(
                "a proof is a session and its nonce, or neither",
            ));
        }
    };
    rpc_errors::check_address(&request.address)?;
    check_registration(&sender, &request.name, &request.address)?;
    context.require_leader()?;
    let (name, address) = (request.name, request.address);
    check_address_is_free(context, &name, &address, None)?;
    let command = Command::OpenSession(OpenSession {
        name: name.clone(),
        address: address.clone(),
        incarnation: request.incarnation,
        nonce: Nonce(u128_from(&request.nonce, "nonce: 16 bytes")?),
        proof,
    });
    let opened = context
        .propose(command)
        .await
        .map_err(|fault| match fault.reason() {
            v1::Reason::NameTaken => with_takeover_wait(context, fault),
            _ => fault,
        });
    let session = match opened? {
        Reply::Session(session) => session,
        other => return Err(rpc_errors::unexpected_reply(&other)),
    };
    if let Err(fault) = check_address_is_free(context, &name, &address, Some(session)) {
        // If this fails, the session expires: its holder does not receive it.
        let close = Command::CloseSession {
            session,
            high_water_marks: Vec::new(),
            last: true,
        };
        if let Err(error) = context.propose(close).await {
            tracing::warn!(%session, %error, "session at an address in use was not closed; it expires");
        }
        return Err(fault);
    }
    let lease_ms = context.node.with_state(|s| s.cluster().map(|c| c.lease_ms));
    Ok(v1::OpenSessionResponse {
        session: session.0,
        lease_ms: lease_ms.ok_or_else(rpc_errors::not_initialized)?,
        ..v1::OpenSessionResponse::default()
    })
}

/// Rejects an address that a session of another name has in the applied state. Of a session that is
/// `opened`, only older ones count.
fn check_address_is_free(
    context: &StoreContext,
    name: &str,
    address: &str,
    opened: Option<SessionId>,
) -> Result<(), RpcError> {
    let taken = context.node.with_state(|state| {
        let mut sessions = state.sessions();
        // Host names have no case.
        let holder = sessions.find(|(id, s)| {
            s.address.eq_ignore_ascii_case(address)
                && s.name != name
                && opened.is_none_or(|opened| *id < opened)
        });
        holder.map(|(id, s)| rpc_errors::address_taken(id, s))
    });
    match taken {
        Some(fault) => Err(with_takeover_wait(context, fault)),
        None => Ok(()),
    }
}

/// Adds how long the older session may live at most, if its holder is dead.
fn with_takeover_wait(context: &StoreContext, fault: RpcError) -> RpcError {
    let lease = context.node.with_state(|s| s.lease()).unwrap_or_default();
    let wait = seqsvr_core::lease::takeover_wait(lease).as_millis() as u32;
    fault.with_retry_after_ms(wait)
}

pub(super) async fn close_session(
    context: &StoreContext,
    request: v1::CloseSessionRequest,
    sender: Sender,
) -> Result<v1::CloseSessionResponse, RpcError> {
    if request.high_water_marks.len() > HIGH_WATER_MARKS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "a chunk carries at most {HIGH_WATER_MARKS_MAX} high-water marks, not {}: send more chunks",
            request.high_water_marks.len()
        )));
    }
    let session = SessionId(request.session);
    match check_session(context, &sender, session).await {
        // As without TLS, it is done if it was done before. It is not proposed: no caller proved
        // that the session was its own.
        Err(fault)
            if fault.reason() == Reason::SessionNotFound
                && context.node.with_state(|state| has_ended(state, session)) =>
        {
            return Ok(v1::CloseSessionResponse::default());
        }
        checked => checked?,
    }
    // The state skips each high-water mark of a slot that the session does not own at its epoch.
    let high_water_marks = request.high_water_marks.iter().map(high_water_mark_from);
    let command = Command::CloseSession {
        session,
        high_water_marks: high_water_marks.collect::<Result<_, _>>()?,
        last: request.last,
    };
    context.propose(command).await?;
    Ok(v1::CloseSessionResponse::default())
}

/// Returns whether a session was opened before, and has ended. Then no session gets its id again.
fn has_ended(state: &State, session: SessionId) -> bool {
    let was_opened = state
        .cluster()
        .is_some_and(|cluster| session.0 < cluster.next_session);
    was_opened && state.session(session).is_none()
}
