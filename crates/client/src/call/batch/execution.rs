//! Calls about many keys: split by owner, sent in parallel, each failed item retried alone.
//!
//! Invariant: every item ends with exactly one result, and no item waits for another's retry. Items
//! with the same history form a [`RetryGroup`]: a group splits by owner, and its failed items
//! continue with their own pauses while the others are answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use seqsvr_proto::convert::namespace_name;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::batch_item::BatchItem;
use crate::call::batch::owner_batch::{InFlightBatch, OwnerBatch, RetryGroup, owner_batch_items};
use crate::call::batch::owner_split::split_by_owner;
use crate::call::batch::single_owner::SingleOwnerCall;
use crate::call::context::CallContext;
use crate::call::pipe_attempt::{attempt_items, try_submit_to_owner};
use crate::call::retry_budget::RetryBudget;
use crate::call::sequence_call::{SequenceCall, frame_key, is_keyed};
use crate::call::table_fetch::get_table;
use crate::client_core::OwnerTable;
use crate::error::Error;
use crate::pipe::{CallResults, FrameItem};
use crate::routing::locate::route_owner;

/// Maximum requests of one call in flight. Above it, batches wait.
const REQUESTS_IN_FLIGHT_MAX: usize = 64;

/// Event that a call waits for.
enum BatchEvent {
    /// The pause of a group ended and there is a table, or the reason why there is none.
    TableReady(RetryGroup, Result<Arc<OwnerTable>, AttemptError>),
    /// A batch was answered, or failed.
    Answered(InFlightBatch, Result<CallResults, AttemptError>),
}

type BatchEvents<'a> = FuturesUnordered<BoxFuture<'a, BatchEvent>>;

/// Call about many keys in progress.
struct BatchExecution<'a, C: SequenceCall> {
    context: &'a CallContext,
    namespace: &'a str,
    items: &'a [C::Item],
    results: Vec<Option<Result<C::Answer, Error>>>,
    permits: Arc<Semaphore>,
    events: BatchEvents<'a>,
}

/// Runs a call about many keys. Returns one result an item, in their order.
pub(crate) async fn call_batch<C: SequenceCall>(
    context: &CallContext,
    namespace: &str,
    items: &[C::Item],
) -> Vec<Result<C::Answer, Error>> {
    let mut budget = RetryBudget::new(context.deadline);
    let mut sent = SingleOwnerCall::try_send::<C>(context, namespace, items, &mut budget);
    let mut answered = None;
    if let Some(single_owner) = &mut sent {
        let answers = (&mut single_owner.answers).await;
        if let Ok(answers) = &answers
            && let Some(results) = single_owner.decode_all::<C>(&context.core, items, answers)
        {
            return results;
        }
        answered = Some(answers.map_err(|_| AttemptError::pipe_lost("the owner")));
    }
    let sent = sent.map(|call| call.into_in_flight(budget.clone()));
    let sent = sent.zip(answered);
    // Boxed, so that the future of the usual call is small.
    Box::pin(run_batch::<C>(context, namespace, items, budget, sent)).await
}

/// Runs a call in batches and with retries, after the batch that was sent already, if any.
async fn run_batch<C: SequenceCall>(
    context: &CallContext,
    namespace: &str,
    items: &[C::Item],
    budget: RetryBudget,
    sent: Option<(InFlightBatch, Result<CallResults, AttemptError>)>,
) -> Vec<Result<C::Answer, Error>> {
    let mut call: BatchExecution<'_, C> = BatchExecution {
        context,
        namespace,
        items,
        results: std::iter::repeat_with(|| None).take(items.len()).collect(),
        permits: Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT_MAX)),
        events: FuturesUnordered::new(),
    };
    match sent {
        Some((in_flight, outcome)) => call.complete(in_flight, outcome),
        None => call.start(budget),
    }
    while let Some(event) = call.events.next().await {
        match event {
            BatchEvent::TableReady(group, Ok(snapshot)) => call.send_group(group, snapshot),
            BatchEvent::TableReady(group, Err(failure)) => call.retry(group, &failure),
            BatchEvent::Answered(in_flight, outcome) => call.complete(in_flight, outcome),
        }
    }
    let missing = || Error::invalid("internal error: an item has no result");
    let results = call.results.into_iter();
    results
        .map(|r| r.unwrap_or_else(|| Err(missing())))
        .collect()
}

impl<'a, C: SequenceCall> BatchExecution<'a, C> {
    /// Sends all items, at once if there is a table to locate them by.
    fn start(&mut self, budget: RetryBudget) {
        let all = RetryGroup {
            items: (0..self.items.len() as u32).collect(),
            budget,
        };
        let table = &self.context.core.table;
        match table.snapshot() {
            Some(snapshot)
                if !table.has_missed_update() && self.has_namespaces(&snapshot, &all.items) =>
            {
                self.send_group(all, snapshot);
            }
            _ => self.await_table_after(all, Duration::ZERO),
        }
    }

    /// Waits for the pause of a group, then gets a table with its namespaces.
    fn await_table_after(&self, mut group: RetryGroup, pause: Duration) {
        if group.items.is_empty() {
            return;
        }
        let core = &self.context.core;
        let names: Vec<&str> = self
            .namespace_names(&group.items)
            .into_iter()
            .flatten()
            .collect();
        let ready = async move {
            sleep(pause).await;
            let snapshot = get_table(core, &names, &mut group.budget).await;
            BatchEvent::TableReady(group, snapshot)
        };
        self.events.push(ready.boxed());
    }

    /// Returns whether a table has the namespaces of all items.
    fn has_namespaces(&self, snapshot: &OwnerTable, items: &[u32]) -> bool {
        let mut names = self.namespace_names(items).into_iter().flatten();
        names.all(|name| snapshot.table.namespace(name).is_some())
    }

    /// Returns the names of the items' namespaces: of uids, and of keys.
    fn namespace_names(&self, items: &[u32]) -> [Option<&'a str>; 2] {
        let mut names = [None, None];
        for i in items {
            let key = self.items[*i as usize].key().as_ref();
            let name = &mut names[usize::from(is_keyed(key))];
            name.get_or_insert_with(|| namespace_name(self.namespace, key));
        }
        names
    }

    /// Splits a group and sends the batches. Items that no request may hold fail here.
    fn send_group(&mut self, group: RetryGroup, snapshot: Arc<OwnerTable>) {
        let batch_items_max = self.context.core.frame_items_max;
        let split = split_by_owner::<C>(
            &snapshot,
            self.namespace,
            self.items,
            &group.items,
            batch_items_max,
        );
        for (i, error) in split.invalid {
            self.results[i as usize] = Some(Err(error));
        }
        for (i, failure) in split.unlocated {
            let alone = RetryGroup {
                items: vec![i],
                budget: group.budget.clone(),
            };
            self.retry(alone, &failure);
        }
        for batch in split.batches {
            self.send_batch(InFlightBatch {
                batch,
                budget: group.budget.clone(),
                snapshot: snapshot.clone(),
                address: None,
            });
        }
    }

    /// Sends a batch: at once if the owner's pipe accepts it, which is the usual case.
    fn send_batch(&self, mut in_flight: InFlightBatch) {
        let (core, items) = (&self.context.core, self.items);
        let OwnerBatch { keyed, weight, .. } = in_flight.batch;
        let frame_key = frame_key::<C>(self.context, &in_flight.snapshot, self.namespace, keyed);
        let permit = self.permits.clone().try_acquire_owned();
        let avoided = in_flight.budget.avoided();
        let may_serve = |owner: &usize| {
            in_flight.snapshot.addresses.get(*owner) != avoided || avoided.is_none()
        };
        if let (Ok(permit), Some(owner)) = (permit, in_flight.batch.owner.filter(may_serve)) {
            let deadline = in_flight.budget.attempt_deadline(Instant::now());
            let submitted = try_submit_to_owner(core, &in_flight.snapshot, owner, |pipe| {
                let frame_items = owner_batch_items::<C>(core, items, &in_flight.batch);
                pipe.submit_batch(&frame_key, weight, frame_items, deadline)
            });
            if let Some(answers) = submitted {
                in_flight.budget.record_attempt();
                let answered = async move {
                    let answers = answers.await;
                    drop(permit);
                    let outcome = answers.map_err(|_| AttemptError::pipe_lost(in_flight.address()));
                    BatchEvent::Answered(in_flight, outcome)
                };
                return self.events.push(answered.boxed());
            }
        }
        let address = core.choose_address(
            &in_flight.snapshot,
            in_flight.batch.owner,
            in_flight.budget.avoided(),
        );
        let permits = self.permits.clone();
        let answered = async move {
            // Never closed: an error cannot come.
            let _permit = permits.acquire().await;
            let frame_items = owner_batch_items::<C>(core, items, &in_flight.batch);
            let frame_items: Vec<FrameItem<'_>> = frame_items.collect();
            let outcome = attempt_items(
                core,
                &address,
                &frame_key,
                weight,
                &frame_items,
                &mut in_flight.budget,
            )
            .await;
            in_flight.address = Some(address);
            BatchEvent::Answered(in_flight, outcome)
        };
        self.events.push(answered.boxed());
    }

    /// Stores the answers and retries the failed items. Those with a new route form another group
    /// than those that must pause.
    fn complete(
        &mut self,
        mut in_flight: InFlightBatch,
        outcome: Result<CallResults, AttemptError>,
    ) {
        let mut answers = outcome.map_err(Box::new);
        let core = &self.context.core;
        let mut failed: BTreeMap<(bool, Option<Duration>), (Vec<u32>, AttemptError)> =
            BTreeMap::new();
        for (&i, &slot) in in_flight.batch.items.iter().zip(&in_flight.batch.slots) {
            let result = match &mut answers {
                // A pipe returns as many answers as it received items.
                Ok(answers) => answers
                    .next()
                    .unwrap_or_else(|| Err(Box::new(AttemptError::pipe_lost("the owner")))),
                Err(failure) => Err(failure.clone()),
            };
            let failure = match result {
                Err(failure) => *failure,
                Ok(raw) => {
                    core.table.observe_epoch(slot, raw.epoch);
                    match C::decode(raw, &self.items[i as usize], in_flight.batch.stride) {
                        Ok(answer) => {
                            self.results[i as usize] = Some(Ok(answer));
                            continue;
                        }
                        Err(problem) => AttemptError::malformed_reply(in_flight.address(), problem),
                    }
                }
            };
            if failed.is_empty() {
                let address = in_flight.address().to_owned();
                in_flight.budget.record_address(&address);
            }
            let previous_owner = route_owner(in_flight.snapshot.table.route(slot));
            let failure = core.with_route_context(slot, previous_owner, failure);
            let retry_after = match failure.decision {
                RetryDecision::Retry => None,
                RetryDecision::RetryAfter(hint) => Some(hint),
                RetryDecision::Stop => {
                    self.results[i as usize] =
                        Some(Err(in_flight.budget.to_error(&failure, false)));
                    continue;
                }
            };
            let group = failed.entry((failure.rerouted, retry_after));
            group.or_insert_with(|| (Vec::new(), failure)).0.push(i);
        }
        for (items, failure) in failed.into_values() {
            let mut budget = in_flight.budget.clone();
            budget.record_failure(in_flight.address(), &failure);
            self.retry(RetryGroup { items, budget }, &failure);
        }
    }

    /// Retries a group, or fails its items.
    fn retry(&mut self, mut group: RetryGroup, failure: &AttemptError) {
        match group.budget.plan_retry(&self.context.core, failure) {
            Ok(pause) => self.await_table_after(group, pause),
            Err(error) => {
                for i in group.items {
                    self.results[i as usize] = Some(Err(error.clone()));
                }
            }
        }
    }
}
