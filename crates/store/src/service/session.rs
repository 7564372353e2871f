//! Opening and closing sessions.

use seqsvr_core::command::{Command, HIGH_WATER_MARKS_MAX, OpenSession, Reply, SessionProof};
use seqsvr_core::ids::{Nonce, SessionId};
use seqsvr_proto::convert::{high_water_mark_from, u128_from};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;

use crate::context::StoreContext;
use crate::rpc_errors;

pub(super) async fn open_session(
    context: &StoreContext,
    request: v1::OpenSessionRequest,
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
    let command = Command::OpenSession(OpenSession {
        name: request.name,
        address: request.address,
        incarnation: request.incarnation,
        nonce: Nonce(u128_from(&request.nonce, "nonce: 16 bytes")?),
        proof,
    });
    let opened = context.propose(command).await.map_err(|fault| {
        // How long the older session may live at most, if its holder is dead.
        let lease = context.node.with_state(|s| s.lease()).unwrap_or_default();
        let wait = seqsvr_core::lease::takeover_wait(lease).as_millis() as u32;
        match fault.reason() {
            v1::Reason::NameTaken => fault.with_retry_after_ms(wait),
            _ => fault,
        }
    });
    match opened? {
        Reply::Session(session) => Ok(v1::OpenSessionResponse {
            session: session.0,
            lease_ms: lease_ms(context)?,
            ..v1::OpenSessionResponse::default()
        }),
        other => Err(rpc_errors::unavailable(format!(
            "unexpected reply {other:?}"
        ))),
    }
}

pub(super) async fn close_session(
    context: &StoreContext,
    request: v1::CloseSessionRequest,
) -> Result<v1::CloseSessionResponse, RpcError> {
    if request.high_water_marks.len() > HIGH_WATER_MARKS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "a chunk carries at most {HIGH_WATER_MARKS_MAX} high-water marks, not {}: send more chunks",
            request.high_water_marks.len()
        )));
    }
    let high_water_marks = request.high_water_marks.iter().map(high_water_mark_from);
    let command = Command::CloseSession {
        session: SessionId(request.session),
        high_water_marks: high_water_marks.collect::<Result<_, _>>()?,
        last: request.last,
    };
    context.propose(command).await?;
    Ok(v1::CloseSessionResponse::default())
}

fn lease_ms(context: &StoreContext) -> Result<u32, RpcError> {
    let lease = |s: &seqsvr_core::state::State| s.cluster().map(|c| c.lease_ms);
    context
        .node
        .with_state(lease)
        .ok_or_else(rpc_errors::not_initialized)
}
