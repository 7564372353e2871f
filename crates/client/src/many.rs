//! Calls about many keys: split by owner, tried in parallel, each failed item tried again alone.
//!
//! Invariant: every item ends with exactly one result, and no item waits for another's retry. Items
//! with one history travel as a *flock*: a flock splits by owner, and what fails of it flies on
//! with its own pauses while the others are answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use seqsvr_core::route::KeyRef;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::limits::NUMBERS_MAX;
use tokio::sync::Semaphore;
use tokio::time::sleep;

use crate::batch::Batch;
use crate::budget::Budget;
use crate::client::Client;
use crate::error::Error;
use crate::failure::{Failure, Verdict};
use crate::routing::Place;
use crate::rpc::Rpc;
use crate::table::Known;

/// Most requests of one call in flight.
const PARALLEL_MAX: usize = 64;

/// Items by index, and what they may still spend.
struct Flock {
    items: Vec<usize>,
    budget: Budget,
}

/// What will be one request.
#[derive(Default)]
struct Part {
    items: Vec<usize>,
    places: Vec<Place>,
    /// Numbers it takes.
    weight: u64,
}

/// A flock sent to one address.
struct Group {
    flock: Flock,
    places: Vec<Place>,
    known: Arc<Known>,
    address: String,
}

enum Event<R> {
    /// A flock's pause is over and there is a table, or why not.
    Ready(Flock, Result<Arc<Known>, Failure>),
    Answered(Group, Result<R, Failure>),
}

type Events<'a, B> = FuturesUnordered<BoxFuture<'a, Event<<<B as Batch>::Request as Rpc>::Reply>>>;

/// One call under way.
struct Call<'a, B: Batch> {
    client: &'a Client,
    namespace: &'a str,
    items: &'a [B::Item],
    results: Vec<Option<Result<B::Answer, Error>>>,
    permits: Arc<Semaphore>,
    events: Events<'a, B>,
}

impl Client {
    pub(crate) async fn many<B: Batch>(
        &self,
        namespace: &str,
        items: &[B::Item],
    ) -> Vec<Result<B::Answer, Error>> {
        let results: Vec<_> = items.iter().map(|i| B::check(i).err().map(Err)).collect();
        let good = (0..items.len()).filter(|i| results[*i].is_none()).collect();
        let mut call: Call<'_, B> = Call {
            client: self,
            namespace,
            items,
            results,
            permits: Arc::new(Semaphore::new(PARALLEL_MAX)),
            events: FuturesUnordered::new(),
        };
        let all = Flock {
            items: good,
            budget: Budget::new(self.deadline),
        };
        call.ready_after(all, Duration::ZERO);
        while let Some(event) = call.events.next().await {
            match event {
                Event::Ready(flock, Ok(known)) => call.send(flock, known),
                Event::Ready(flock, Err(failure)) => call.again(flock, &failure),
                Event::Answered(group, outcome) => call.settle(group, outcome),
            }
        }
        let lost = || Error::invalid("an item without a result");
        let results = call.results.into_iter();
        results.map(|r| r.unwrap_or_else(|| Err(lost()))).collect()
    }
}

impl<'a, B: Batch> Call<'a, B> {
    /// The flock rests, then sees to it that there is a table with its namespaces.
    fn ready_after(&self, mut flock: Flock, pause: Duration) {
        if flock.items.is_empty() {
            return;
        }
        let client = self.client;
        let keys = flock.items.iter().map(|i| B::key(&self.items[*i]).as_ref());
        let mut names: Vec<&str> = keys.map(|k| namespace_name(self.namespace, k)).collect();
        names.sort_unstable();
        names.dedup();
        let ready = async move {
            sleep(pause).await;
            let known = client.inner.known(&names, &mut flock.budget).await;
            Event::Ready(flock, known)
        };
        self.events.push(ready.boxed());
    }

    /// Splits a flock by whom to ask, by uids and keys (which do not mix in a request) and by the
    /// limits of a request, and sends the parts.
    fn send(&mut self, flock: Flock, known: Arc<Known>) {
        let inner = &self.client.inner;
        let mut targets: BTreeMap<Option<u64>, String> = BTreeMap::new();
        let mut parts: BTreeMap<(String, bool), Part> = BTreeMap::new();
        let mut full = Vec::new();
        for &i in &flock.items {
            let key = B::key(&self.items[i]).as_ref();
            let place = match inner.place(&known, self.namespace, key) {
                Ok(place) => place,
                Err(failure) => {
                    let alone = Flock {
                        items: vec![i],
                        budget: flock.budget.clone(),
                    };
                    self.again(alone, &failure);
                    continue;
                }
            };
            let owner = known.table.route(place.slot).and_then(|r| r.owner.as_ref());
            let address = targets
                .entry(owner.map(|o| o.session.0))
                .or_insert_with(|| inner.target(&known, place.slot))
                .clone();
            let kind = (address, matches!(key, KeyRef::Uid(_)));
            let weight = B::weight(&self.items[i]);
            let part = parts.entry(kind.clone()).or_default();
            if part.items.len() >= inner.items_max || part.weight + weight > NUMBERS_MAX {
                full.push((kind, std::mem::take(part)));
            }
            part.items.push(i);
            part.places.push(place);
            part.weight += weight;
        }
        for ((address, _), part) in full.into_iter().chain(parts) {
            let Part { items, places, .. } = part;
            let flock = Flock {
                items,
                budget: flock.budget.clone(),
            };
            self.try_group(Group {
                flock,
                places,
                known: known.clone(),
                address,
            });
        }
    }

    fn try_group(&self, mut group: Group) {
        let inner = &self.client.inner;
        let columns: Vec<(&B::Item, u64)> = group
            .flock
            .items
            .iter()
            .zip(&group.places)
            .map(|(i, place)| (&self.items[*i], inner.table.epoch(place.slot)))
            .collect();
        let version = group.known.table.version();
        let request = B::request(self.namespace, version, self.client.strict, &columns);
        let permits = self.permits.clone();
        let answered = async move {
            // Never closed: an error cannot come.
            let _permit = permits.acquire().await;
            let outcome = inner
                .try_at(&group.address, request, &mut group.flock.budget)
                .await;
            Event::Answered(group, outcome)
        };
        self.events.push(answered.boxed());
    }

    /// Files the answered items; the failed ones go on, those with a new route apart from those
    /// that must pause.
    fn settle(&mut self, group: Group, outcome: Result<<B::Request as Rpc>::Reply, Failure>) {
        let Group {
            flock,
            places,
            known,
            address,
        } = group;
        let n = flock.items.len();
        let mut failures: Vec<Option<Failure>> = vec![None; n];
        let reply = match outcome {
            Ok(reply) if B::fits(&reply, n) => {
                for error in B::errors(&reply) {
                    if let Some(failure) = failures.get_mut(error.index as usize) {
                        *failure = Some(Failure::from_item(&address, error));
                    }
                }
                Some(reply)
            }
            Ok(_) => {
                let failure = Failure::malformed(&address, "columns of unequal length");
                failures.fill(Some(failure));
                None
            }
            Err(failure) => {
                failures.fill(Some(failure));
                None
            }
        };
        let inner = &self.client.inner;
        let mut parted: BTreeMap<(bool, Option<Duration>), (Vec<usize>, Failure)> = BTreeMap::new();
        for (at, failure) in failures.into_iter().enumerate() {
            let (i, place) = (flock.items[at], places[at]);
            let failure = match (failure, &reply) {
                (Some(failure), _) => failure,
                (None, Some(reply)) => {
                    inner.table.saw(place.slot, B::epoch(reply, at));
                    match B::read(reply, at, &self.items[i], place) {
                        Ok(answer) => {
                            self.results[i] = Some(Ok(answer));
                            continue;
                        }
                        Err(what) => Failure::malformed(&address, what),
                    }
                }
                // `failures` was filled when there is no reply.
                (None, None) => Failure::malformed(&address, "no reply"),
            };
            let failure = inner.about(place.slot, &known, failure);
            let wait = match failure.verdict {
                Verdict::Retry => None,
                Verdict::After(hint) => Some(hint),
                Verdict::Final => {
                    self.results[i] = Some(Err(flock.budget.error(&failure, false)));
                    continue;
                }
            };
            let part = parted.entry((failure.rerouted, wait));
            part.or_insert_with(|| (Vec::new(), failure)).0.push(i);
        }
        for (items, failure) in parted.into_values() {
            let budget = flock.budget.clone();
            self.again(Flock { items, budget }, &failure);
        }
    }

    /// Another try for a flock, or its end.
    fn again(&mut self, mut flock: Flock, failure: &Failure) {
        match self.client.inner.pause(&mut flock.budget, failure) {
            Ok(pause) => self.ready_after(flock, pause),
            Err(error) => {
                for i in flock.items {
                    self.results[i] = Some(Err(error.clone()));
                }
            }
        }
    }
}
