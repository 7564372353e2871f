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
use crate::key::Key;
use crate::pipe::{Entry, FRAME_MAX, Lot, Parcel};
use crate::routing::{Place, namespace_in, place_in, whose};
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
    address: String,
    items: Vec<usize>,
    places: Vec<Place>,
    /// Numbers it takes.
    weight: u64,
}

impl Part {
    fn with_capacity(n: usize) -> Part {
        Part {
            items: Vec::with_capacity(n),
            places: Vec::with_capacity(n),
            ..Part::default()
        }
    }
}

/// A flock sent to one address.
struct Group {
    flock: Flock,
    places: Vec<Place>,
    known: Arc<Known>,
    address: String,
}

enum Event {
    /// A flock's pause is over and there is a table, or why not.
    Ready(Flock, Result<Arc<Known>, Failure>),
    Answered(Group, Result<Vec<Entry>, Failure>),
}

type Events<'a> = FuturesUnordered<BoxFuture<'a, Event>>;

/// One call under way.
struct Call<'a, B: Batch> {
    client: &'a Client,
    namespace: &'a str,
    items: &'a [B::Item],
    results: Vec<Option<Result<B::Answer, Error>>>,
    permits: Arc<Semaphore>,
    events: Events<'a>,
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
        let items_max = inner.items_max.min(FRAME_MAX);
        // By owner (the last one: none) and kind of key.
        let all = known.addresses.len() + 1;
        let mut parts: Vec<Option<Part>> = (0..2 * all).map(|_| None).collect();
        let mut full = Vec::new();
        // Of uids and of keys, each looked up once.
        let mut namespaces = [None, None];
        for &i in &flock.items {
            let key = B::key(&self.items[i]).as_ref();
            let kind = usize::from(matches!(key, KeyRef::Key(_)));
            let namespace =
                namespaces[kind].get_or_insert_with(|| namespace_in(&known, self.namespace, key));
            let placed = match namespace {
                Ok(namespace) => place_in(&known, namespace, key),
                Err(failure) => Err(failure.clone()),
            };
            let place = match placed {
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
            let owner = known.owner(place.slot);
            let part = parts[2 * owner.unwrap_or(all - 1) + kind].get_or_insert_with(|| Part {
                address: inner.target(&known, owner),
                ..Part::with_capacity(flock.items.len().min(items_max))
            });
            let weight = u64::from(B::count(&self.items[i]));
            if part.items.len() >= items_max || part.weight + weight > NUMBERS_MAX {
                let address = part.address.clone();
                let next = Part {
                    address,
                    ..Part::default()
                };
                full.push(std::mem::replace(part, next));
            }
            part.items.push(i);
            part.places.push(place);
            part.weight += weight;
        }
        for part in full.into_iter().chain(parts.into_iter().flatten()) {
            let Part {
                address,
                items,
                places,
                ..
            } = part;
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
        let placed = group.flock.items.iter().zip(&group.places);
        let parcels: Vec<Parcel<'a>> = placed
            .map(|(i, place)| {
                let item = &self.items[*i];
                Parcel {
                    key: B::key(item),
                    count: B::count(item),
                    floor: B::floor(item),
                    epoch: inner.table.epoch(place.slot),
                }
            })
            .collect();
        let lot = Lot {
            asks: B::ASKS,
            namespace: self.namespace,
            keyed: parcels.iter().any(|p| matches!(p.key, Key::Key(_))),
            strict: self.client.strict,
            version: group.known.table.version(),
        };
        let client = self.client;
        let permits = self.permits.clone();
        let answered = async move {
            // Never closed: an error cannot come.
            let _permit = permits.acquire().await;
            let budget = &mut group.flock.budget;
            let outcome = client
                .carry_many(&group.address, &lot, &parcels, budget)
                .await;
            Event::Answered(group, outcome)
        };
        self.events.push(answered.boxed());
    }

    /// Files the answered items; the failed ones go on, those with a new route apart from those
    /// that must pause.
    fn settle(&mut self, group: Group, outcome: Result<Vec<Entry>, Failure>) {
        let Group {
            flock,
            places,
            known,
            address,
        } = group;
        let mut entries: Vec<Entry> = match outcome {
            Ok(entries) => entries,
            Err(failure) => vec![Err(Box::new(failure)); flock.items.len()],
        };
        // A pipe answers as many as were given.
        let lost = || Err(Box::new(Failure::malformed(&address, "no reply")));
        entries.resize_with(flock.items.len(), lost);
        let inner = &self.client.inner;
        let mut parted: BTreeMap<(bool, Option<Duration>), (Vec<usize>, Failure)> = BTreeMap::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let (i, place) = (flock.items[at], places[at]);
            let failure = match entry {
                Err(failure) => *failure,
                Ok(got) => {
                    inner.table.saw(place.slot, got.epoch);
                    match B::read(got, &self.items[i], place) {
                        Ok(answer) => {
                            self.results[i] = Some(Ok(answer));
                            continue;
                        }
                        Err(what) => Failure::malformed(&address, what),
                    }
                }
            };
            let was = whose(known.table.route(place.slot));
            let failure = inner.about(place.slot, was, failure);
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
