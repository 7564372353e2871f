//! The slow path: serves a request until its deadline. Items of loaded sections are answered at
//! once. The others open sections, wait for windows, are forwarded, or wait: each group on its own,
//! so that no slow item delays another. The number of waiting items is bounded by permits.

mod classify_misses;
pub(crate) mod forwarder;
pub(crate) mod miss_reason;
mod progress;
mod resolution;
mod resolve;
mod try_owned;
mod wait_key;
pub(crate) mod wait_limiter;

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use crate::batch::item::{ItemAnswer, RequestItem};
use crate::batch::request::BatchRequest;
use crate::batch::request_context::RequestContext;
use crate::batch::response::BatchResponse;
use crate::sections::refiller::Refiller;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::shared_parts::SharedParts;
use crate::slow_path::forwarder::Forwarder;
use crate::slow_path::progress::RequestProgress;
use crate::slow_path::resolution::Resolution;
use crate::slow_path::wait_key::WaitKey;
use crate::slow_path::wait_limiter::{WaitLimiter, WaitPermits};
use crate::store_client::ownership_verifier::OwnershipVerifier;
use crate::store_client::section_reader::SectionReader;
use crate::store_client::store_group::StoreGroupClient;
use crate::store_client::unavailable::no_table_error;

/// Maximum items of a batch processed, or results handled, before the task yields. About 50 us, so
/// that a caller that touches section after section does not delay others.
const ITEMS_PER_POLL: usize = 32;

type ResolutionQueue<'a> = FuturesUnordered<BoxFuture<'a, Vec<Resolution>>>;

/// Serves what memory cannot answer at once.
pub(crate) struct SlowPath {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) lifecycle: Arc<SectionLifecycle>,
    pub(crate) refiller: Arc<Refiller>,
    pub(crate) stores: StoreGroupClient,
    pub(crate) ownership_verifier: Arc<OwnershipVerifier>,
    pub(crate) section_reader: Arc<SectionReader>,
    pub(crate) forwarder: Forwarder,
    pub(crate) wait_limiter: WaitLimiter,
}

impl SlowPath {
    /// Returns the number of items that wait.
    pub(crate) fn waiting_count(&self) -> usize {
        self.wait_limiter.permits_taken()
    }

    /// Returns the routing table; waits for the first one until the deadline.
    pub(crate) async fn wait_for_table(
        &self,
        deadline: Instant,
    ) -> Result<Arc<RoutingTable>, RpcError> {
        let table = self.shared.table.wait_for_first(deadline).await;
        table.ok_or_else(|| no_table_error(&self.shared.identity, &self.stores))
    }

    /// Answers every item of a batch before the deadline, in order.
    pub(crate) async fn serve_batch_slow(
        &self,
        call: &RequestContext,
        batch: &BatchRequest,
    ) -> BatchResponse {
        let mut items = Vec::with_capacity(batch.len());
        let mut invalid_items = HashMap::new();
        for i in 0..batch.len() {
            match batch.to_item(i) {
                Ok(item) => items.push(item),
                Err(fault) => drop(invalid_items.insert(i, Err(fault))),
            }
        }
        let mut answers = self.serve_items(call, &items).await.into_iter();
        let mut columns = BatchResponse::with_capacity(batch.len());
        for i in 0..batch.len() {
            let answer = invalid_items.remove(&i).or_else(|| answers.next());
            if let Some(answer) = answer {
                if let Err(fault) = &answer {
                    self.shared.call_metrics.record_failure(fault.reason());
                }
                columns.push_answer(&answer);
            }
        }
        columns
    }

    /// Answers every item before the deadline, in order.
    pub(crate) async fn serve_items(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
    ) -> Vec<Result<ItemAnswer, RpcError>> {
        let mut progress = RequestProgress {
            answers: vec![None; items.len()],
            open_items: (0..items.len() as u32).collect(),
            ..RequestProgress::default()
        };
        let mut permits = self
            .wait_limiter
            .permits_for(call.share.as_ref(), items.len());
        let mut resolutions: ResolutionQueue<'_> = FuturesUnordered::new();
        let mut rounds = 0;
        // Invariant: no number is taken after the deadline, because the client discards its answer.
        // Schedule that breaks it: the background gets no CPU time while a client retries. Then
        // each batch that timed out takes a number: a gap for each retry.
        while Instant::now() < call.deadline {
            let found = self
                .find_namespace(call, items, &mut progress.is_renewed, &mut permits)
                .await;
            match found {
                Err(fault) => {
                    for i in progress.open_items.drain(..) {
                        progress.answers[i as usize] = Some(Err(fault.clone()));
                    }
                }
                Ok((table, namespace)) => {
                    self.try_round(call, items, &table, &namespace, &mut progress, &mut permits)
                        .await;
                    self.start_resolutions(call, items, &table, &mut progress, &mut resolutions)
                        .await;
                }
            }
            rounds += 1;
            if rounds % ITEMS_PER_POLL == 0 {
                yield_now().await;
            }
            match timeout_at(call.deadline, resolutions.next()).await {
                Ok(Some(outcomes)) => {
                    for (index, outcome) in outcomes {
                        if progress.awaiting_confirmation.remove(&index).is_some()
                            && let Some(Ok(ItemAnswer::Numbers { .. })) = outcome
                        {
                            self.shared.counters.next_items.add(1);
                            self.shared
                                .counters
                                .numbers_issued
                                .add(items[index as usize].operation.number_count());
                        }
                        match outcome {
                            Some(outcome) => progress.answers[index as usize] = Some(outcome),
                            None => progress.open_items.push(index),
                        }
                    }
                }
                // No item waits, or the time is over.
                Ok(None) | Err(_) => break,
            }
        }
        // These answers were not confirmed in time.
        for index in progress.awaiting_confirmation.keys() {
            let count = items[*index as usize].operation.number_count();
            self.shared.counters.numbers_discarded.add(count);
        }
        let RequestProgress {
            answers,
            pending_reasons,
            ..
        } = progress;
        let late = |i: usize| Err(self.timeout_error(pending_reasons.get(&(i as u32))));
        let answers = answers.into_iter().enumerate();
        answers
            .map(|(i, answer)| answer.unwrap_or_else(|| late(i)))
            .collect()
    }

    /// Answers those of the open items that can be answered now, and adds the others to the items
    /// of their wait key.
    async fn try_round(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
        table: &Arc<RoutingTable>,
        namespace: &Namespace,
        progress: &mut RequestProgress,
        permits: &mut WaitPermits<'_>,
    ) {
        let mut misses = Vec::new();
        let todo = std::mem::take(&mut progress.open_items);
        for (n, chunk) in todo.chunks(ITEMS_PER_POLL).enumerate() {
            if n > 0 {
                yield_now().await;
            }
            let answers = &mut progress.answers;
            misses.append(&mut self.try_owned(call, table, namespace, items, chunk, answers));
        }
        // A caller with a newer table than this process is redirected only after a query for that
        // table.
        let behind = call.table_version > table.version() && !progress.is_renewed;
        let mut misses = misses.into_iter().peekable();
        while misses.peek().is_some() {
            let chunk = misses.by_ref().take(ITEMS_PER_POLL);
            self.classify_misses(call, behind, table, chunk, progress, permits);
            if misses.peek().is_some() {
                yield_now().await;
            }
        }
    }

    /// Starts what the waiting items wait for.
    async fn start_resolutions<'a>(
        &'a self,
        call: &'a RequestContext,
        items: &'a [RequestItem],
        table: &RoutingTable,
        progress: &mut RequestProgress,
        resolutions: &mut ResolutionQueue<'a>,
    ) {
        // Ordered by their first items, so that the order of sending does not depend on memory
        // addresses.
        let mut groups: Vec<_> = std::mem::take(&mut progress.waiting_items)
            .into_iter()
            .collect();
        groups.sort_unstable_by_key(|(_, members)| members.first().copied());
        for (n, (wait_key, members)) in groups.into_iter().enumerate() {
            if n > 0 && n % ITEMS_PER_POLL == 0 {
                yield_now().await;
            }
            resolutions.push(match wait_key {
                WaitKey::ConfirmAnswers(ownership) => {
                    let awaiting_confirmation =
                        |i: &u32| Some((*i, *progress.awaiting_confirmation.get(i)?));
                    let taken = members.iter().filter_map(awaiting_confirmation).collect();
                    Box::pin(self.confirm_answers(call, items, ownership, taken))
                }
                wait_key => self.resolve(call, items, table, wait_key, members),
            });
        }
    }

    /// Finds the namespace of a call. An unknown one may be new, so the store is queried once a
    /// call.
    async fn find_namespace(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
        is_renewed: &mut bool,
        permits: &mut WaitPermits<'_>,
    ) -> Result<(Arc<RoutingTable>, Namespace), RpcError> {
        let name = items.first().map_or(call.namespace.as_str(), |item| {
            namespace_name(&call.namespace, item.key.as_ref())
        });
        loop {
            let table = match self.shared.table.load() {
                Some(table) => table,
                None => {
                    permits.acquire(&self.shared.counters.queue_rejections)?;
                    self.wait_for_table(call.deadline).await?
                }
            };
            // Checked again here, because before the first table this process did not have its
            // cluster's tag.
            self.shared.own_cluster.check(call.cluster)?;
            if let Some(namespace) = table.namespace(name) {
                let namespace = namespace.clone();
                return Ok((table, namespace));
            }
            if *is_renewed {
                let text = format!(
                    "there is no namespace {name:?}; see `seqsvr namespace list` or make it with `seqsvr namespace create`"
                );
                return Err(RpcError::new(Reason::NamespaceNotFound, text));
            }
            permits.acquire(&self.shared.counters.queue_rejections)?;
            if self.shared.renewals.renew_and_wait(call.deadline).await {
                *is_renewed = true;
            } else if Instant::now() >= call.deadline {
                let text = format!(
                    "no store of {} has confirmed whether there is a namespace {name:?}; retry",
                    self.stores.address_list()
                );
                return Err(RpcError::new(Reason::Unreachable, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seqsvr_proto::v1::NextManyRequest;

    use super::*;
    use crate::batch::request_context::local_operator;
    use crate::fast_path::tests::FastPathFixture;

    /// Schedule: batches of a client that retries wait for a background thread. When they get one,
    /// the client has given up, and the section is loaded.
    #[tokio::test]
    async fn batch_after_deadline_takes_no_number() {
        let fixture = FastPathFixture::new().await;
        let batch = BatchRequest::from(NextManyRequest {
            uids: vec![7],
            ..NextManyRequest::default()
        });
        let begun = Instant::now();
        let late = batch.to_context(&local_operator(), begun, None, None);
        let late = fixture.slow_path.serve_batch_slow(&late, &batch).await;
        assert_eq!(late.values, [0], "no number");
        let timely = batch.to_context(
            &local_operator(),
            begun + Duration::from_secs(60),
            None,
            None,
        );
        let timely = fixture.slow_path.serve_batch_slow(&timely, &batch).await;
        assert_eq!(timely.values, [1]);
    }
}
