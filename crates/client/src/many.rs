//! Calls about many keys: split by owner, tried in parallel, each failed item retried alone.
//!
//! Invariant: every item ends with exactly one result, and no item waits for another's retry. Items
//! with one history travel as a *flock*: a flock splits by owner, and its failed items continue
//! with their own pauses while the others are answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use seqsvr_core::id::Slot;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::limits::NUMBERS_MAX;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::batch::Batch;
use crate::budget::Budget;
use crate::client::Client;
use crate::error::Error;
use crate::failure::{Failure, Verdict};
use crate::pipe::{Answers, FRAME_MAX, Lot, Parcel};
use crate::routing::{namespace_in, place_in, whose};
use crate::table::Known;
use crate::together::{Together, is_keyed, parcels};

/// Most requests of one call in flight.
const PARALLEL_MAX: usize = 64;

/// Items by index, with the budget that they still have.
struct Flock {
    items: Vec<u32>,
    budget: Budget,
}

/// The content of one request: items of one owner, and of one kind of key, hence of one namespace.
struct Part {
    /// Index in the table's addresses; None: there is no owner.
    owner: Option<usize>,
    items: Vec<u32>,
    slots: Vec<Slot>,
    /// Numbers that the items take.
    weight: u64,
    keyed: bool,
    /// Stride of the namespace.
    stride: u32,
}

impl Part {
    /// Returns an empty part like this one.
    fn another(&self) -> Part {
        Part {
            items: Vec::new(),
            slots: Vec::new(),
            weight: 0,
            ..*self
        }
    }
}

/// A part in flight.
struct Group {
    part: Part,
    budget: Budget,
    known: Arc<Known>,
    /// Address to which the part was sent, if not the owner's.
    address: Option<String>,
}

impl Group {
    /// Makes a group of all items of a call.
    fn from_together(sent: Together, budget: Budget) -> Group {
        Group {
            part: Part {
                owner: Some(sent.owner),
                items: (0..sent.slots.len() as u32).collect(),
                slots: sent.slots,
                weight: sent.weight,
                keyed: sent.keyed,
                stride: sent.stride,
            },
            budget,
            known: sent.known,
            address: None,
        }
    }

    /// Returns the address to which the part was sent.
    fn address(&self) -> &str {
        let owner = self.part.owner.map(|at| self.known.addresses[at].as_str());
        self.address.as_deref().or(owner).unwrap_or_default()
    }
}

enum Event {
    /// A flock's pause is over and there is a table, or the reason why there is none.
    Ready(Flock, Result<Arc<Known>, Failure>),
    Answered(Group, Result<Answers, Failure>),
}

type Events<'a> = FuturesUnordered<BoxFuture<'a, Event>>;

/// One call in progress.
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
        let mut budget = Budget::new(self.deadline);
        let mut sent = self.send_together::<B>(namespace, items, &mut budget);
        let mut answered = None;
        if let Some(together) = &mut sent {
            let answers = (&mut together.answers).await;
            if let Ok(answers) = &answers
                && let Some(results) = self.read_together::<B>(items, together, answers)
            {
                return results;
            }
            answered = Some(answers.map_err(|_| Failure::lost("the owner")));
        }
        let sent = sent.map(|together| Group::from_together(together, budget.clone()));
        let sent = sent.zip(answered);
        // Boxed, so that the future of the usual call is small.
        Box::pin(self.many_parts::<B>(namespace, items, budget, sent)).await
    }

    /// Runs a call in parts and with retries, after the part that was sent already, if any.
    async fn many_parts<B: Batch>(
        &self,
        namespace: &str,
        items: &[B::Item],
        budget: Budget,
        sent: Option<(Group, Result<Answers, Failure>)>,
    ) -> Vec<Result<B::Answer, Error>> {
        let mut call: Call<'_, B> = Call {
            client: self,
            namespace,
            items,
            results: std::iter::repeat_with(|| None).take(items.len()).collect(),
            permits: Arc::new(Semaphore::new(PARALLEL_MAX)),
            events: FuturesUnordered::new(),
        };
        match sent {
            Some((group, outcome)) => call.settle(group, outcome),
            None => call.begin(budget),
        }
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
    /// Sends all items, at once if there is a table to place them by.
    fn begin(&mut self, budget: Budget) {
        let all = Flock {
            items: (0..self.items.len() as u32).collect(),
            budget,
        };
        let table = &self.client.inner.table;
        match table.known() {
            Some(known) if !table.has_gap() && self.has_namespaces(&known, &all.items) => {
                self.send(all, known);
            }
            _ => self.ready_after(all, Duration::ZERO),
        }
    }

    /// Waits for the pause of the flock, then gets a table with its namespaces.
    fn ready_after(&self, mut flock: Flock, pause: Duration) {
        if flock.items.is_empty() {
            return;
        }
        let client = self.client;
        let names: Vec<&str> = self.names(&flock.items).into_iter().flatten().collect();
        let ready = async move {
            sleep(pause).await;
            let known = client.inner.known(&names, &mut flock.budget).await;
            Event::Ready(flock, known)
        };
        self.events.push(ready.boxed());
    }

    /// Returns whether a table has the namespaces of all items.
    fn has_namespaces(&self, known: &Known, items: &[u32]) -> bool {
        let names = self.names(items).into_iter().flatten();
        names
            .into_iter()
            .all(|name| known.table.namespace(name).is_some())
    }

    /// Returns the names of the items' namespaces: of uids, and of keys.
    fn names(&self, items: &[u32]) -> [Option<&'a str>; 2] {
        let mut names = [None, None];
        for i in items {
            let key = B::key(&self.items[*i as usize]).as_ref();
            let name = &mut names[usize::from(is_keyed(key))];
            name.get_or_insert_with(|| namespace_name(self.namespace, key));
        }
        names
    }

    /// Splits a flock by server, by kind of key (kinds do not mix in a request) and by the limits
    /// of a request. Sends the parts. Items that no request may hold fail here.
    fn send(&mut self, flock: Flock, known: Arc<Known>) {
        let inner = &self.client.inner;
        let items_max = inner.items_max.min(FRAME_MAX);
        // By owner (the last one: none) and kind of key.
        let all = known.addresses.len() + 1;
        let mut parts: Vec<Option<Part>> = (0..2 * all).map(|_| None).collect();
        let mut full = Vec::new();
        // The namespaces of uids and of keys, each looked up once.
        let mut namespaces = [None, None];
        for &i in &flock.items {
            let item = &self.items[i as usize];
            if let Err(error) = B::check(item) {
                self.results[i as usize] = Some(Err(error));
                continue;
            }
            let key = B::key(item).as_ref();
            let keyed = is_keyed(key);
            let namespace = namespaces[usize::from(keyed)]
                .get_or_insert_with(|| namespace_in(&known, self.namespace, key));
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
            let at = 2 * owner.unwrap_or(all - 1) + usize::from(keyed);
            let part = parts[at].get_or_insert_with(|| {
                let room = flock.items.len().min(items_max);
                Part {
                    owner,
                    items: Vec::with_capacity(room),
                    slots: Vec::with_capacity(room),
                    weight: 0,
                    keyed,
                    stride: place.stride,
                }
            });
            let weight = u64::from(B::count(item));
            if part.items.len() >= items_max || part.weight + weight > NUMBERS_MAX {
                let next = part.another();
                full.push(std::mem::replace(part, next));
            }
            part.items.push(i);
            part.slots.push(place.slot);
            part.weight += weight;
        }
        for part in full.into_iter().chain(parts.into_iter().flatten()) {
            self.try_part(Group {
                part,
                budget: flock.budget.clone(),
                known: known.clone(),
                address: None,
            });
        }
    }

    /// Sends a part: at once if the owner's pipe takes it, which is the usual case.
    fn try_part(&self, mut group: Group) {
        let (client, items) = (self.client, self.items);
        let Part { keyed, weight, .. } = group.part;
        let lot = Lot {
            asks: B::ASKS,
            namespace: self.namespace,
            keyed,
            strict: client.strict,
            version: group.known.table.version(),
        };
        let permit = self.permits.clone().try_acquire_owned();
        if let (Ok(permit), Some(owner)) = (permit, group.part.owner) {
            let patience = group.budget.patience(Instant::now());
            let submitted = client.inner.at_owner(&group.known, owner, |pipe| {
                let parcels = parcels_of::<B>(client, items, &group.part);
                pipe.submit_many(&lot, weight, parcels, patience)
            });
            if let Some(answers) = submitted {
                group.budget.tried();
                let answered = async move {
                    let answers = answers.await;
                    drop(permit);
                    let outcome = answers.map_err(|_| Failure::lost(group.address()));
                    Event::Answered(group, outcome)
                };
                return self.events.push(answered.boxed());
            }
        }
        let address = client.inner.target(&group.known, group.part.owner);
        let permits = self.permits.clone();
        let answered = async move {
            // Never closed: an error cannot come.
            let _permit = permits.acquire().await;
            let parcels = parcels_of::<B>(client, items, &group.part);
            let parcels: Vec<Parcel<'_>> = parcels.collect();
            let outcome = client
                .carry_many(&address, &lot, weight, &parcels, &mut group.budget)
                .await;
            group.address = Some(address);
            Event::Answered(group, outcome)
        };
        self.events.push(answered.boxed());
    }

    /// Stores the answers; the failed items are retried, those with a new route apart from those
    /// that must pause.
    fn settle(&mut self, mut group: Group, outcome: Result<Answers, Failure>) {
        let mut answers = outcome.map_err(Box::new);
        let inner = &self.client.inner;
        let mut parted: BTreeMap<(bool, Option<Duration>), (Vec<u32>, Failure)> = BTreeMap::new();
        for (&i, &slot) in group.part.items.iter().zip(&group.part.slots) {
            let entry = match &mut answers {
                // A pipe returns as many answers as it received items.
                Ok(answers) => answers
                    .next()
                    .unwrap_or_else(|| Err(Box::new(Failure::lost("the owner")))),
                Err(failure) => Err(failure.clone()),
            };
            let failure = match entry {
                Err(failure) => *failure,
                Ok(got) => {
                    inner.table.saw(slot, got.epoch);
                    match B::read(got, &self.items[i as usize], group.part.stride) {
                        Ok(answer) => {
                            self.results[i as usize] = Some(Ok(answer));
                            continue;
                        }
                        Err(what) => Failure::malformed(group.address(), what),
                    }
                }
            };
            if parted.is_empty() {
                let address = group.address().to_owned();
                group.budget.note(&address);
            }
            let was = whose(group.known.table.route(slot));
            let failure = inner.about(slot, was, failure);
            let wait = match failure.verdict {
                Verdict::Retry => None,
                Verdict::After(hint) => Some(hint),
                Verdict::Final => {
                    self.results[i as usize] = Some(Err(group.budget.error(&failure, false)));
                    continue;
                }
            };
            let part = parted.entry((failure.rerouted, wait));
            part.or_insert_with(|| (Vec::new(), failure)).0.push(i);
        }
        for (items, failure) in parted.into_values() {
            let budget = group.budget.clone();
            self.again(Flock { items, budget }, &failure);
        }
    }

    /// Retries a flock, or ends it.
    fn again(&mut self, mut flock: Flock, failure: &Failure) {
        match self.client.inner.pause(&mut flock.budget, failure) {
            Ok(pause) => self.ready_after(flock, pause),
            Err(error) => {
                for i in flock.items {
                    self.results[i as usize] = Some(Err(error.clone()));
                }
            }
        }
    }
}

/// Returns the items of a part in the form that a pipe takes.
fn parcels_of<'p, B: Batch>(
    client: &'p Client,
    items: &'p [B::Item],
    part: &'p Part,
) -> impl ExactSizeIterator<Item = Parcel<'p>> + Clone {
    let items = part.items.iter().map(|i| &items[*i as usize]);
    parcels::<B>(client, items.zip(&part.slots))
}
