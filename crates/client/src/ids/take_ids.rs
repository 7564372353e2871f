//! The loop of a call for ids.
//!
//! Every server answers for every family, so a client stays at one while that answers: its ids then
//! rise without a floor that lifts them to the next tick. A retry requests other ids; those of a
//! lost answer stay unused.

use std::sync::Arc;

use seqsvr_core::layout::InputError;
use seqsvr_proto::v1::Reason;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tonic::Code;

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::call::pipe_attempt::attempt_ids;
use crate::call::retry_budget::{RetryBudget, is_of_one_holder};
use crate::call::table_fetch::fetch_table;
use crate::client_core::ClientCore;
use crate::error::Error;
use crate::pipe::{CallIds, CallResults, FrameKey, PipeConnection, PipeOperation};
use crate::routing::family_cache::ClientFamily;

/// Takes ids, at most as many as a frame holds.
pub(super) async fn take_ids(
    core: &Arc<ClientCore>,
    family: &ClientFamily,
    count: usize,
    budget: &mut RetryBudget,
) -> Result<CallIds, Error> {
    loop {
        let answered = match try_submit(core, family, count, budget) {
            Some((pipe, results)) => {
                let ids = match results.await {
                    Ok(results) => results.into_ids(),
                    Err(_) => Err(AttemptError::pipe_lost(&pipe.address)),
                };
                check(family, &pipe.address, ids, budget)
            }
            // Boxed, so that the future of the usual call is small.
            None => Box::pin(attempt_at_any(core, family, count, budget)).await,
        };
        match answered {
            Ok(ids) => return Ok(ids),
            Err(failure) => Box::pin(prepare_retry(core, &failure, budget)).await?,
        }
    }
}

/// Submits to the server that gave the last ids, without waiting; None if it cannot answer now.
fn try_submit(
    core: &ClientCore,
    family: &ClientFamily,
    count: usize,
    budget: &mut RetryBudget,
) -> Option<(Arc<PipeConnection>, oneshot::Receiver<CallResults>)> {
    let pipe = core.ids_pipe.load_full()?;
    if !may_serve(core, &pipe.address, budget) {
        return None;
    }
    let deadline = budget.next_deadline();
    let submitted = pipe.submit_ids(&frame_key(family), count, family.least_id(), deadline);
    let results = submitted.ok()?;
    budget.record_attempt();
    Some((pipe, results))
}

/// Sends the call to the server that gave the last ids, or to another one if that cannot answer,
/// and waits for the ids. Later calls go there as well, unless it cannot answer either.
async fn attempt_at_any(
    core: &Arc<ClientCore>,
    family: &ClientFamily,
    count: usize,
    budget: &mut RetryBudget,
) -> Result<CallIds, AttemptError> {
    let last = core.ids_pipe.load_full();
    let usable = last
        .as_ref()
        .filter(|last| last.is_open() && may_serve(core, &last.address, budget));
    let address = match usable {
        Some(last) => last.address.clone(),
        None => {
            let snapshot = core.table.snapshot();
            let addresses = snapshot.as_ref().map_or(&[][..], |known| &known.addresses);
            let except = last.iter().map(|last| &last.address);
            let except: Vec<String> = except.chain(budget.all_avoided()).cloned().collect();
            core.servers.pick_server(addresses, &except)
        }
    };
    let (key, least) = (frame_key(family), family.least_id());
    let ids = attempt_ids(core, &address, &key, count, least, budget).await;
    let ids = check(family, &address, ids, budget);
    if !budget.all_avoided().contains(&address) {
        let pipe = core.pipes.get_or_open(core, &address);
        core.ids_pipe.store(pipe.ok());
    }
    ids
}

/// Waits until the next attempt may begin. It goes to another server, unless the last one requested
/// the pause. If only that AllocSvr has no id now, all others are tried before the pause.
async fn prepare_retry(
    core: &ClientCore,
    failure: &AttemptError,
    budget: &mut RetryBudget,
) -> Result<(), Error> {
    let pause = budget.plan_retry(core, failure)?;
    if is_of_one_holder(failure.reason) {
        let snapshot = core.table.snapshot();
        let addresses = snapshot.as_ref().map_or(&[][..], |known| &known.addresses);
        if core.servers.has_other_than(budget.all_avoided(), addresses) {
            return Ok(());
        }
    }
    budget.avoid_only_last();
    sleep(pause).await;
    if failure.unanswered {
        // Answers with ids carry no routes: which servers there are may have changed. Without a
        // newer table the call continues with the servers that the client has.
        let version = core
            .table
            .snapshot()
            .map_or(0, |known| known.table.version());
        let _ = fetch_table(core, version, budget).await;
    }
    Ok(())
}

/// Returns the ids if they are of the family; records otherwise whether to avoid their server.
fn check(
    family: &ClientFamily,
    address: &str,
    answered: Result<CallIds, AttemptError>,
    budget: &mut RetryBudget,
) -> Result<CallIds, AttemptError> {
    let checked = answered.and_then(|ids| match family.receive(ids.as_slice()) {
        Ok(()) => Ok(ids),
        Err(InputError(problem)) => Err(AttemptError::malformed_reply(address, &problem)),
    });
    if checked.is_ok() {
        budget.avoid_none();
    }
    checked.map_err(|mut failure| {
        // A family in the table of this client exists: a server that lacks it is only behind. The
        // worker that one AllocSvr had under its name is no concern of others, and free later.
        let is_own_worker =
            (failure.reason, failure.code) == (Reason::NoWorker, Code::AlreadyExists);
        if failure.reason == Reason::FamilyNotFound || is_own_worker {
            failure.decision = RetryDecision::Retry;
        }
        budget.record_address(address);
        // A server that has no worker, or reaches no store, may be the only one.
        let has_none = is_of_one_holder(failure.reason) || failure.reason == Reason::Unreachable;
        match failure.decision == RetryDecision::Retry || has_none {
            true => budget.avoid(address),
            false => budget.avoid_none(),
        }
        failure
    })
}

fn may_serve(core: &ClientCore, address: &String, budget: &RetryBudget) -> bool {
    !core.servers.is_suspect(address) && !budget.all_avoided().contains(address)
}

fn frame_key(family: &ClientFamily) -> FrameKey<'_> {
    FrameKey {
        operation: PipeOperation::Ids,
        namespace: &family.spec.name,
        keyed: false,
        strict: false,
        table_version: 0,
    }
}
