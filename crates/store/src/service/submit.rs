//! Section commands of one AllocSvr. They need no confirmation: slot, epoch and generation fence
//! each of them when it is applied. A command of another AllocSvr fails alone, see `sender.rs`.

use seqsvr_core::command::Reply;
use seqsvr_core::ids::Generation;
use seqsvr_proto::convert::{command_from, section_reply_from};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::SUBMIT_COMMANDS_MAX;
use seqsvr_proto::v1;

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::service::sender::{Sender, judge_command, wait_for_epochs};

pub(super) async fn submit_commands(
    context: &StoreContext,
    request: v1::SubmitRequest,
    sender: Sender,
) -> Result<v1::SubmitResponse, RpcError> {
    let count = request.commands.len();
    if count == 0 || count > SUBMIT_COMMANDS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "one Submit carries 1 to {SUBMIT_COMMANDS_MAX} commands, not {count}"
        )));
    }
    let term = context.require_leader()?;
    let fences = request.commands.iter().filter_map(|c| c.fence.as_ref());
    wait_for_epochs(context, &sender, term, fences).await?;
    // An Open that expects no generation takes the one applied here. If that is old, or another
    // Open is under way, the store rejects it when it is applied, and the AllocSvr retries.
    let (mut own, mut rejections) = (Vec::with_capacity(count), Vec::with_capacity(count));
    context.node.with_state(|state| {
        let generation = |key| state.section(key).map_or(Generation(0), |s| s.generation);
        for wire in &request.commands {
            let command = command_from(wire, generation)?;
            let rejection = judge_command(state, &sender, &command);
            if rejection.is_none() {
                own.push(command);
            }
            rejections.push(rejection);
        }
        Ok::<_, RpcError>(())
    })?;
    let replies = match own.is_empty() {
        true => Vec::new(),
        false => {
            let replies = context.proposer.propose(own).await;
            replies.map_err(rpc_errors::from_proposal_error)?
        }
    };
    let mut replies = replies.into_iter();
    let reply = |rejection| match rejection {
        Some(rejection) => Some(Reply::Rejected(rejection)),
        None => replies.next(),
    };
    let replies = rejections.into_iter().filter_map(reply);
    Ok(v1::SubmitResponse {
        replies: replies.map(|reply| section_reply_from(&reply)).collect(),
        ..v1::SubmitResponse::default()
    })
}
