//! Planned move of a slot, requested by its owner, which has stopped serving it.
//!
//! Invariant: the store accepts a move only from the session that owns the slot at that epoch.
//! Epoch and generations fence the command itself when it is applied. The check of the session here
//! only keeps a confused sender from giving away a slot of another owner; `sender.rs` has the one
//! that keeps out a sender that lies.

use seqsvr_core::command::{Command, HIGH_WATER_MARKS_MAX, HighWaterMark, Reply};
use seqsvr_core::ids::{Epoch, SessionId, Slot};
use seqsvr_proto::convert::high_water_mark_from;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::service::sender::{Sender, check_session, judge_slot, wait_for_epochs};

pub(super) async fn move_slot(
    context: &StoreContext,
    request: v1::MoveSlotRequest,
    sender: Sender,
) -> Result<v1::MoveSlotResponse, RpcError> {
    if request.high_water_marks.len() > HIGH_WATER_MARKS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "a move carries at most {HIGH_WATER_MARKS_MAX} high-water marks, not {}: close the others before",
            request.high_water_marks.len()
        )));
    }
    let slot = u16::try_from(request.slot).map(Slot);
    let slot = slot
        .map_err(|_| rpc_errors::invalid_request(format!("there is no slot {}", request.slot)))?;
    let epoch = Epoch(request.epoch);
    let mut high_water_marks: Vec<HighWaterMark> =
        Vec::with_capacity(request.high_water_marks.len());
    for wire in &request.high_water_marks {
        let last = high_water_mark_from(wire)?;
        if (last.slot, last.epoch) != (slot, epoch) {
            return Err(rpc_errors::invalid_request(
                "a high-water mark names another slot or epoch than the move",
            ));
        }
        high_water_marks.push(last.mark);
    }
    let term = context.require_leader()?;
    let session = SessionId(request.session);
    check_session(context, &sender, session).await?;
    // All high-water marks have this slot and epoch.
    let fence = v1::Fence {
        slot: request.slot,
        epoch: request.epoch,
        ..v1::Fence::default()
    };
    wait_for_epochs(context, &sender, term, [&fence].into_iter()).await?;
    let (rejection, has_other_owner) = context.node.with_state(|state| {
        let row = state.slots().get(usize::from(slot.0));
        let has_other_owner =
            row.is_some_and(|row| row.epoch == epoch && row.owner != Some(session));
        (judge_slot(state, &sender, slot, epoch), has_other_owner)
    });
    if let Some(rejection) = rejection {
        return Err(rpc_errors::from_refusal(&rejection));
    }
    if has_other_owner {
        return Err(rpc_errors::invalid_request(format!(
            "slot {slot} is not session {session}'s at epoch {epoch}"
        )));
    }
    let command = Command::MoveSlot {
        slot,
        epoch,
        high_water_marks,
        to: Some(SessionId(request.target_session)),
    };
    match context.propose(command).await? {
        Reply::Slot { epoch, owner } => Ok(v1::MoveSlotResponse {
            epoch: epoch.0,
            owner: owner.map_or(0, |id| id.0),
            ..v1::MoveSlotResponse::default()
        }),
        other => Err(rpc_errors::unexpected_reply(&other)),
    }
}
