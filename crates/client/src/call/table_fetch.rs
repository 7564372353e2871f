//! Getting a routing table that has what a call needs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::v1::{self, Reason};
use tokio::time::{sleep, timeout};

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::call::first_contact::{self, decide_cluster};
use crate::call::retry_budget::RetryBudget;
use crate::call::unary_attempt::attempt_unary;
use crate::client_core::{ClientCore, OwnerTable};

/// Maximum fetches for a namespace or family that the table lacks, since it may be new. After them
/// it counts as unknown.
const LOOKUPS_MAX: u32 = 3;
/// Pause between two of these fetches.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(20);

/// Returns a table that has these namespaces, if any server has them.
pub(crate) async fn get_table(
    core: &ClientCore,
    namespaces: &[&str],
    budget: &mut RetryBudget,
) -> Result<Arc<OwnerTable>, AttemptError> {
    let has = |table: &RoutingTable| namespaces.iter().all(|n| table.namespace(n).is_some());
    get_table_with(core, has, budget).await
}

/// Returns a table of which `has_all` is true, if any server has one.
pub(crate) async fn get_table_with(
    core: &ClientCore,
    has_all: impl Fn(&RoutingTable) -> bool,
    budget: &mut RetryBudget,
) -> Result<Arc<OwnerTable>, AttemptError> {
    let missed_update = core.table.take_missed_update();
    let needs_opinion = core.table.take_second_opinion();
    let mut snapshot = match core.table.snapshot() {
        // No answer is no contradiction: the call continues with the table that the client has.
        Some(snapshot) if needs_opinion && !missed_update => {
            fetch_table(core, 0, budget).await.unwrap_or(snapshot)
        }
        Some(snapshot) if !missed_update => snapshot,
        _ => fetch_table(core, 0, budget).await.inspect_err(|_| {
            if missed_update {
                core.table.mark_missed_update();
            }
        })?,
    };
    while !has_all(&snapshot.table) && budget.lookups < LOOKUPS_MAX {
        if budget.lookups > 0 {
            sleep(LOOKUP_INTERVAL.min(budget.time_left())).await;
        }
        snapshot = fetch_table(core, snapshot.table.version(), budget).await?;
        budget.lookups += 1;
    }
    Ok(snapshot)
}

/// Requests from a server what a table of version `base` lacks. Callers that arrive during a
/// fetch share its outcome.
pub(crate) async fn fetch_table(
    core: &ClientCore,
    base: u64,
    budget: &mut RetryBudget,
) -> Result<Arc<OwnerTable>, AttemptError> {
    let fetches_at_start = core.fetches_ended.load(Ordering::Acquire);
    let Ok(mut outcome) = timeout(budget.time_left(), core.last_fetch.lock()).await else {
        return Err(no_table_error());
    };
    if core.fetches_ended.load(Ordering::Acquire) == fetches_at_start {
        *outcome = request_table(core, base, budget).await.err();
        core.fetches_ended.fetch_add(1, Ordering::AcqRel);
    }
    match &*outcome {
        Some(failure) => Err(failure.clone()),
        None => core.table.snapshot().ok_or_else(no_table_error),
    }
}

/// Requests a table from one server; from all configured ones at the first contact.
async fn request_table(
    core: &ClientCore,
    base: u64,
    budget: &mut RetryBudget,
) -> Result<(), AttemptError> {
    if first_contact::is_due(core) {
        decide_cluster(core, budget).await?;
        if core.table.snapshot().is_some() {
            return Ok(());
        }
    }
    let snapshot = core.table.snapshot();
    let addresses = snapshot.as_ref().map_or(&[][..], |k| &k.addresses);
    // A table that lacks what a call needs is requested from another server than the last one.
    // Schedule: an AllocSvr is cut off from the stores, and its table stays old.
    let last = core.last_fetched_from.lock().take().filter(|_| base > 0);
    let claimant = core.jump_check.claimant();
    let claimant = claimant.or_else(|| core.table.doubted_server());
    let except = claimant.or(last);
    let address = core.servers.pick_server(addresses, except.as_slice());
    *core.last_fetched_from.lock() = Some(address.clone());
    let request = v1::RoutesRequest {
        base,
        ..v1::RoutesRequest::default()
    };
    attempt_unary(core, &address, request, budget).await?;
    Ok(())
}

fn no_table_error() -> AttemptError {
    AttemptError::new(
        Reason::Unreachable,
        RetryDecision::Retry,
        "no AllocSvr gave a usable routing table".into(),
    )
}
