//! Section commands of one AllocSvr. They need no confirmation: slot, epoch and generation fence
//! each of them when it is applied.

use seqsvr_core::ids::Generation;
use seqsvr_proto::convert::{command_from, section_reply_from};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::SUBMIT_COMMANDS_MAX;
use seqsvr_proto::v1;

use crate::context::StoreContext;
use crate::rpc_errors;

pub(super) async fn submit_commands(
    context: &StoreContext,
    request: v1::SubmitRequest,
) -> Result<v1::SubmitResponse, RpcError> {
    let count = request.commands.len();
    if count == 0 || count > SUBMIT_COMMANDS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "one Submit carries 1 to {SUBMIT_COMMANDS_MAX} commands, not {count}"
        )));
    }
    context.require_leader()?;
    // An Open that expects no generation takes the one applied here. If that is old, or another
    // Open is under way, the store rejects it when it is applied, and the AllocSvr retries.
    let commands = context.node.with_state(|state| {
        let generation = |key| state.section(key).map_or(Generation(0), |s| s.generation);
        let commands = request.commands.iter().map(|c| command_from(c, generation));
        commands.collect::<Result<Vec<_>, _>>()
    })?;
    let replies = context.proposer.propose(commands).await;
    let replies = replies.map_err(rpc_errors::from_proposal_error)?;
    Ok(v1::SubmitResponse {
        replies: replies.iter().map(section_reply_from).collect(),
        ..v1::SubmitResponse::default()
    })
}
