//! Worker commands of AllocSvrs, and of the holders whose calls they relay.
//!
//! Invariant: one result for each command, in their order, and a command that is rejected fails no
//! other. So each is checked by itself before it shares an entry with others. A batch is not
//! atomic: its commands may lie in several entries. If the outcome of one of these is unknown, the
//! whole batch fails, and is repeated.
//!
//! Schedule: half of a batch is applied, and the leader dies before it answers. The next leader
//! gets all of it again. An acquisition with a nonce that has a worker gets the grant of before; a
//! renewal is absolute; a release that was applied finds its epoch over and gets STALE_WORKER,
//! which its sender takes for done.

use seqsvr_core::command::{Command, Reply};
use seqsvr_core::state::State;
use seqsvr_proto::convert::worker_command_from;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::WORKER_COMMANDS_MAX;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{self, Reason};

use super::find_family;
use crate::context::StoreContext;
use crate::rpc_errors;
use crate::store_time::needs_time;

pub(in crate::service) async fn serve_workers(
    context: &StoreContext,
    request: v1::WorkersRequest,
) -> Result<v1::WorkersResponse, RpcError> {
    let count = request.commands.len();
    if count == 0 || count > WORKER_COMMANDS_MAX {
        return Err(rpc_errors::limit_exceeded(format!(
            "one Workers carries 1 to {WORKER_COMMANDS_MAX} commands, not {count}"
        )));
    }
    // Another leader may have created a family.
    context.confirm_leadership().await?;
    let commands = read_commands(context, &request.commands);
    let timed = commands
        .iter()
        .flatten()
        .find(|command| needs_time(command));
    let time = match timed {
        Some(command) => context.check_time(command).await,
        None => Ok(()),
    };
    if let Err(error) = &time
        && error.reason() == Reason::NotLeader
    {
        return Err(error.clone());
    }
    let (mut accepted, mut errors) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for command in commands {
        // A family that was found shows that the cluster has the level of families.
        let checked = command.and_then(|command| match needs_time(&command) {
            true => time.clone().map(|()| command),
            false => Ok(command),
        });
        errors.push(checked.map(|command| accepted.push(command)).err());
    }
    let replies = context.proposer.propose(accepted).await;
    let mut replies = replies
        .map_err(rpc_errors::from_proposal_error)?
        .into_iter();
    let outcomes = errors.into_iter().filter_map(|error| match error {
        Some(error) => Some(Err(error)),
        None => Some(outcome_of(context, replies.next()?)),
    });
    let results = outcomes.enumerate().map(|(index, outcome)| {
        let outcome = outcome.unwrap_or_else(|e| Outcome::Error(e.to_item_error(index)));
        v1::WorkerResult {
            result: Some(outcome),
        }
    });
    Ok(v1::WorkersResponse {
        results: results.collect(),
        ..v1::WorkersResponse::default()
    })
}

/// Returns the commands with the ids of their families, or why they are rejected. What no holder
/// sends takes no entry of the log: any client may send renewals.
fn read_commands(
    context: &StoreContext,
    commands: &[v1::WorkerCommand],
) -> Vec<Result<Command, RpcError>> {
    context.node.with_state(|state| {
        let id = |name: &str| find_family(state, name).map(|row| row.family.id);
        let read = |command| {
            let command = worker_command_from(command, id)?;
            match state.judge_holder(&command) {
                Some(rejection) => Err(rpc_errors::from_refusal(&rejection)),
                None => Ok(Command::Ids(command)),
            }
        };
        commands.iter().map(read).collect()
    })
}

/// Returns the outcome of a command. Grants carry the limits of their family as they are now.
fn outcome_of(context: &StoreContext, reply: Reply) -> Result<Outcome, RpcError> {
    match reply {
        Reply::Grant(grant) => {
            let family =
                |state: &State| Some(v1::Family::from(&state.family(grant.worker.family)?.family));
            Ok(Outcome::Grant(v1::WorkerGrant {
                worker: grant.worker.worker.0,
                epoch: grant.epoch.0,
                lane: grant.lane,
                from: grant.from,
                until: grant.until,
                store_time_ms: grant.high_ms,
                family: context.node.with_state(family),
            }))
        }
        Reply::Done => Ok(Outcome::Released(v1::ReleaseWorkerResponse {})),
        Reply::Rejected(rejection) => Err(rpc_errors::from_refusal(&rejection)),
        other => Err(rpc_errors::unexpected_reply(&other)),
    }
}
