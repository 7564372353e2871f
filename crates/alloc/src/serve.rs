//! Serving a request: local items at once, the others by opening, refilling, forwarding, waiting,
//! each group on its own, so that no slow item hides another; all bounded by the deadline, and in
//! number by the places there are for what waits.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use crate::ask::{ItemAnswer, RequestContext, RequestItem};
use crate::columns::BatchResponse;
use crate::frame::BatchRequest;
use crate::group::{PendingReason, WaitKey};
use crate::node::Node;
use crate::waiting::WaitPermits;
use crate::work::Resolution;

/// Items of a batch looked at, or outcomes taken in, at one go; then other calls have their turn.
/// About 50 us: whoever touches section upon section is not to keep others waiting.
const AT_ONCE: usize = 32;

type ResolutionQueue<'a> = FuturesUnordered<BoxFuture<'a, Vec<Resolution>>>;

/// What has become of a request's items so far.
#[derive(Default)]
pub(crate) struct RequestProgress {
    pub(crate) answers: Vec<Option<Result<ItemAnswer, Fault>>>,
    /// Why an item is not answered yet.
    pub(crate) why: HashMap<u32, PendingReason>,
    /// Taken for strict items, and waiting for a confirmation.
    pub(crate) held: HashMap<u32, ItemAnswer>,
    /// Whether the store was asked for a newer table.
    pub(crate) refreshed: bool,
    /// Items found to wait, by what they wait for.
    pub(crate) groups: HashMap<WaitKey, Vec<u32>>,
}

impl Node {
    /// Answers every item of a frame before the deadline, in order.
    pub(crate) async fn serve_frame(
        self: &Arc<Self>,
        call: &RequestContext,
        frame: &BatchRequest,
    ) -> BatchResponse {
        let mut items = Vec::with_capacity(frame.len());
        let mut bad = HashMap::new();
        for i in 0..frame.len() {
            match frame.item(i) {
                Ok(item) => items.push(item),
                Err(fault) => drop(bad.insert(i, Err(fault))),
            }
        }
        let mut answers = self.serve(call, &items).await.into_iter();
        let mut columns = BatchResponse::with_capacity(frame.len());
        for i in 0..frame.len() {
            let answer = bad.remove(&i).or_else(|| answers.next());
            if let Some(answer) = answer {
                if let Err(fault) = &answer {
                    self.timing.failed(fault.reason());
                }
                columns.push(&answer);
            }
        }
        columns
    }

    /// Answers every item before the deadline, in order.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        call: &RequestContext,
        items: &[RequestItem],
    ) -> Vec<Result<ItemAnswer, Fault>> {
        let mut so_far = RequestProgress {
            answers: vec![None; items.len()],
            ..RequestProgress::default()
        };
        let mut places = self.waiting.places(call.share.as_ref(), items.len());
        let mut todo: Vec<u32> = (0..items.len() as u32).collect();
        let mut work: ResolutionQueue<'_> = FuturesUnordered::new();
        let mut taken_in = 0;
        // Invariant: no number is taken after the deadline, because the client discards its answer.
        // Schedule that breaks it: the background gets no CPU time while a client retries. Then
        // each frame that timed out takes a number: a gap for each retry.
        while Instant::now() < call.deadline {
            let known = self
                .namespace(call, items, &mut so_far.refreshed, &mut places)
                .await;
            match known {
                Err(fault) => todo
                    .drain(..)
                    .for_each(|i| so_far.answers[i as usize] = Some(Err(fault.clone()))),
                Ok((table, namespace)) => {
                    let mut misses = Vec::new();
                    for (n, some) in todo.chunks(AT_ONCE).enumerate() {
                        if n > 0 {
                            yield_now().await;
                        }
                        let answers = &mut so_far.answers;
                        misses
                            .append(&mut self.pass(call, &table, &namespace, items, some, answers));
                    }
                    todo.clear();
                    // A caller that knows a newer table than ours is not sent away before we have
                    // asked.
                    let behind = call.table_version > table.version() && !so_far.refreshed;
                    let mut misses = misses.into_iter().peekable();
                    while misses.peek().is_some() {
                        let some = misses.by_ref().take(AT_ONCE);
                        self.sort(call, behind, &table, some, &mut so_far, &mut places);
                        if misses.peek().is_some() {
                            yield_now().await;
                        }
                    }
                    // By their first items: what is sent first does not depend on addresses of
                    // memory.
                    let mut groups: Vec<_> =
                        std::mem::take(&mut so_far.groups).into_iter().collect();
                    groups.sort_unstable_by_key(|(_, members)| members.first().copied());
                    for (n, (group, members)) in groups.into_iter().enumerate() {
                        if n > 0 && n % AT_ONCE == 0 {
                            yield_now().await;
                        }
                        work.push(match group {
                            WaitKey::ConfirmAnswers(holding) => {
                                let held = |i: &u32| Some((*i, *so_far.held.get(i)?));
                                let taken = members.iter().filter_map(held).collect();
                                Box::pin(self.confirmed(call, items, holding, taken))
                            }
                            group => self.work(call, items, &table, group, members),
                        });
                    }
                }
            }
            taken_in += 1;
            if taken_in % AT_ONCE == 0 {
                yield_now().await;
            }
            match timeout_at(call.deadline, work.next()).await {
                Ok(Some(outcomes)) => {
                    for (index, outcome) in outcomes {
                        if so_far.held.remove(&index).is_some()
                            && let Some(Ok(ItemAnswer::Numbers { .. })) = outcome
                        {
                            self.counters.nexts.add(1);
                            self.counters.numbers.add(items[index as usize].ask.count());
                        }
                        match outcome {
                            Some(outcome) => so_far.answers[index as usize] = Some(outcome),
                            None => todo.push(index),
                        }
                    }
                }
                // Nothing is under way, or the time is over.
                Ok(None) | Err(_) => break,
            }
        }
        // Never confirmed in time.
        for index in so_far.held.keys() {
            self.burn(items[*index as usize].ask);
        }
        let RequestProgress { answers, why, .. } = so_far;
        let late = |i: usize| Err(self.too_late(why.get(&(i as u32))));
        let answers = answers.into_iter().enumerate();
        answers
            .map(|(i, answer)| answer.unwrap_or_else(|| late(i)))
            .collect()
    }

    /// The namespace a call means. An unknown one may be new: the store is asked once a call.
    async fn namespace(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
        refreshed: &mut bool,
        places: &mut WaitPermits<'_>,
    ) -> Result<(Arc<RoutingTable>, Namespace), Fault> {
        let name = items.first().map_or(call.namespace.as_str(), |item| {
            namespace_name(&call.namespace, item.key.key_ref())
        });
        loop {
            let table = match self.table.load() {
                Some(table) => table,
                None => {
                    places.take(&self.counters.waiting_refused)?;
                    self.table_by(call.deadline).await?
                }
            };
            // Checked again here: before the first table this process did not know its cluster.
            self.cluster.check(call.cluster)?;
            if let Some(namespace) = table.namespace(name) {
                let namespace = namespace.clone();
                return Ok((table, namespace));
            }
            if *refreshed {
                let text = format!(
                    "there is no namespace {name:?}; see `seqsvr namespace list` or make it with `seqsvr namespace create`"
                );
                return Err(Fault::new(Reason::NoSuchNamespace, text));
            }
            places.take(&self.counters.waiting_refused)?;
            if self.refresh(call.deadline).await {
                *refreshed = true;
            } else if Instant::now() >= call.deadline {
                let text = format!(
                    "no store of {} has told whether there is a namespace {name:?}; retry",
                    self.stores.list()
                );
                return Err(Fault::new(Reason::Unreachable, text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seqsvr_proto::v1::NextManyRequest;

    use super::*;
    use crate::hits::tests::FastPathFixture;

    /// Schedule: frames of a client that retries wait for a background thread. When they get one,
    /// the client has given up, and the section is loaded.
    #[tokio::test]
    async fn a_call_after_its_deadline_takes_nothing() {
        let world = FastPathFixture::new().await;
        let frame = BatchRequest::from(NextManyRequest {
            uids: vec![7],
            ..NextManyRequest::default()
        });
        let begun = Instant::now();
        let late = frame.call(begun, None, None);
        let late = world.node.serve_frame(&late, &frame).await;
        assert_eq!(late.values, [0], "no number");
        let timely = frame.call(begun + Duration::from_secs(60), None, None);
        let timely = world.node.serve_frame(&timely, &frame).await;
        assert_eq!(timely.values, [1]);
    }
}
