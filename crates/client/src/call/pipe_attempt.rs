//! One attempt of items at one address, through its pipe.
//!
//! Invariant: the pipe applies the routing table that an answer carries before the caller sees the
//! answer. It also records what an attempt says about the server before the call decides on a
//! retry.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::attempt::attempt_deadline::AttemptDeadline;
use crate::attempt::attempt_error::AttemptError;
use crate::call::retry_budget::RetryBudget;
use crate::client_core::{ClientCore, OwnerTable};
use crate::pipe::{
    CallIds, CallResults, FrameItem, FrameKey, ItemResult, PipeConnection, RawAnswer, SubmitError,
};

/// Maximum pipes opened for one attempt: the server may close each just before it accepts the
/// items. Above it, the attempt counts as not answered.
const PIPES_PER_ATTEMPT_MAX: usize = 4;

/// Sends one item and waits for its answer.
pub(crate) async fn attempt_item(
    core: &Arc<ClientCore>,
    address: &str,
    frame_key: &FrameKey<'_>,
    item: FrameItem<'_>,
    budget: &mut RetryBudget,
) -> Result<RawAnswer, AttemptError> {
    let answered = attempt_through_pipe(core, address, 1, budget, |pipe, deadline| {
        pipe.submit_single(frame_key, item, deadline)
    })
    .await;
    answered.and_then(|result: ItemResult| result.map_err(|failure| *failure))
}

/// Sends the items of one batch, at most as many as a frame holds, and waits for their results.
pub(crate) async fn attempt_items(
    core: &Arc<ClientCore>,
    address: &str,
    frame_key: &FrameKey<'_>,
    weight: u64,
    frame_items: &[FrameItem<'_>],
    budget: &mut RetryBudget,
) -> Result<CallResults, AttemptError> {
    attempt_through_pipe(
        core,
        address,
        frame_items.len(),
        budget,
        |pipe, deadline| {
            pipe.submit_batch(frame_key, weight, frame_items.iter().copied(), deadline)
        },
    )
    .await
}

/// Sends a call for ids, at most as many as a frame holds, and waits for them.
pub(crate) async fn attempt_ids(
    core: &Arc<ClientCore>,
    address: &str,
    frame_key: &FrameKey<'_>,
    count: usize,
    least_id: Option<u64>,
    budget: &mut RetryBudget,
) -> Result<CallIds, AttemptError> {
    let answered = attempt_through_pipe(core, address, count, budget, |pipe, deadline| {
        pipe.submit_ids(frame_key, count, least_id, deadline)
    })
    .await;
    answered.and_then(CallResults::into_ids)
}

async fn attempt_through_pipe<T>(
    core: &Arc<ClientCore>,
    address: &str,
    item_count: usize,
    budget: &mut RetryBudget,
    submit: impl Fn(&PipeConnection, AttemptDeadline) -> Result<oneshot::Receiver<T>, SubmitError>,
) -> Result<T, AttemptError> {
    budget.record_attempt_at(address);
    let deadline = budget.attempt_deadline(Instant::now());
    let AttemptDeadline {
        expires_at,
        timeout,
    } = deadline;
    let mut closed_pipes = 0;
    while closed_pipes < PIPES_PER_ATTEMPT_MAX {
        let opened = core.pipes.get_or_open(core, address);
        let pipe = opened.inspect_err(|_| core.servers.mark_unresponsive(address))?;
        match submit(&pipe, deadline) {
            Ok(answer) => {
                drop(pipe);
                return answer.await.map_err(|_| AttemptError::pipe_lost(address));
            }
            Err(SubmitError::Closed) => closed_pipes += 1,
            Err(SubmitError::Full) if Instant::now() >= expires_at => break,
            Err(SubmitError::Full) => pipe.wait_for_room(item_count, expires_at).await,
        }
    }
    core.servers.mark_unresponsive(address);
    Err(AttemptError::timed_out(address, timeout))
}

/// Submits to an owner's pipe without waiting; None if it is suspect or its pipe accepts
/// nothing now.
pub(crate) fn try_submit_to_owner<T>(
    core: &Arc<ClientCore>,
    snapshot: &OwnerTable,
    owner: usize,
    submit: impl Fn(&PipeConnection) -> Result<T, SubmitError>,
) -> Option<T> {
    if core.servers.is_suspect(&snapshot.addresses[owner]) {
        return None;
    }
    let last_pipe = snapshot.connections[owner].load();
    let submitted = last_pipe
        .as_ref()
        .map_or(Err(SubmitError::Closed), |pipe| submit(pipe));
    match submitted {
        Ok(submitted) => Some(submitted),
        Err(SubmitError::Full) => None,
        Err(SubmitError::Closed) => {
            let pipe = core
                .pipes
                .get_or_open(core, &snapshot.addresses[owner])
                .ok()?;
            snapshot.connections[owner].store(Some(pipe.clone()));
            submit(&pipe).ok()
        }
    }
}
