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

use crate::ask::{Answer, Call, Item};
use crate::group::{Group, Why};
use crate::node::Node;
use crate::waiting::Places;
use crate::work::Outcome;

/// Items of a batch taken in one go; between two of them other calls have their turn.
const PASS_MAX: usize = 256;

type Work<'a> = FuturesUnordered<BoxFuture<'a, Vec<Outcome>>>;

/// What has become of a request's items so far.
#[derive(Default)]
pub(crate) struct SoFar {
    pub(crate) answers: Vec<Option<Result<Answer, Fault>>>,
    /// Why an item is not answered yet.
    pub(crate) why: HashMap<u32, Why>,
    /// Taken for strict items, and waiting for a confirmation.
    pub(crate) held: HashMap<u32, Answer>,
    /// Whether the store was asked for a newer table.
    pub(crate) refreshed: bool,
}

impl Node {
    /// Answers every item before the deadline, in order.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        call: &Call<'_>,
        items: &[Item],
    ) -> Vec<Result<Answer, Fault>> {
        let mut so_far = SoFar {
            answers: vec![None; items.len()],
            ..SoFar::default()
        };
        let mut places = self.waiting.places(call.share.as_ref(), items.len());
        let mut todo: Vec<u32> = (0..items.len() as u32).collect();
        let mut work: Work<'_> = FuturesUnordered::new();
        loop {
            let known = self
                .namespace(call, items, &mut so_far.refreshed, &mut places)
                .await;
            match known {
                Err(fault) => todo
                    .drain(..)
                    .for_each(|i| so_far.answers[i as usize] = Some(Err(fault.clone()))),
                Ok((table, namespace)) => {
                    let mut misses = Vec::new();
                    for (n, some) in todo.chunks(PASS_MAX).enumerate() {
                        if n > 0 {
                            yield_now().await;
                        }
                        let answers = &mut so_far.answers;
                        misses
                            .append(&mut self.pass(call, &table, &namespace, items, some, answers));
                    }
                    todo.clear();
                    let groups = self.sort(call, &table, misses, &mut so_far, &mut places);
                    for (group, members) in groups {
                        work.push(match group {
                            Group::Confirm(holding) => {
                                let held = |i: &u32| Some((*i, *so_far.held.get(i)?));
                                let taken = members.iter().filter_map(held).collect();
                                Box::pin(self.confirmed(call, items, holding, taken))
                            }
                            group => self.work(call, items, &table, group, members),
                        });
                    }
                }
            }
            match timeout_at(call.deadline, work.next()).await {
                Ok(Some(outcomes)) => {
                    for (index, outcome) in outcomes {
                        if so_far.held.remove(&index).is_some()
                            && let Some(Ok(Answer::Numbers { .. })) = outcome
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
        let SoFar { answers, why, .. } = so_far;
        let late = |i: usize| Err(self.too_late(why.get(&(i as u32))));
        let answers = answers.into_iter().enumerate();
        answers
            .map(|(i, answer)| answer.unwrap_or_else(|| late(i)))
            .collect()
    }

    /// The namespace a call means. An unknown one may be new: the store is asked once a call.
    async fn namespace(
        &self,
        call: &Call<'_>,
        items: &[Item],
        refreshed: &mut bool,
        places: &mut Places<'_>,
    ) -> Result<(Arc<RoutingTable>, Namespace), Fault> {
        let name = items.first().map_or(call.namespace, |item| {
            namespace_name(call.namespace, item.key.key_ref())
        });
        loop {
            let table = match self.table.load() {
                Some(table) => table,
                None => {
                    places.take(&self.counters.waiting_refused)?;
                    self.table_by(call.deadline).await?
                }
            };
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
