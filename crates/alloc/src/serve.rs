//! Serving a request: local items at once, the others by opening, refilling, forwarding, waiting,
//! each group on its own, so that no slow item hides another; all bounded by the deadline.

#![expect(
    clippy::mutable_key_type,
    reason = "section objects are hashed and compared by identity"
)]

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use seqsvr_core::id::{SectionKey, Slot};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use tokio::time::{Instant, timeout_at};

use crate::ask::{Answer, Call, Item, Miss, out_of_time};
use crate::guard::Holding;
use crate::loaded::Loaded;
use crate::node::Node;
use crate::work::Outcome;

type Work<'a> = FuturesUnordered<BoxFuture<'a, Vec<Outcome>>>;

/// Items that wait for the same thing.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum Group {
    Open(SectionKey, Slot),
    Refill(Object, u64),
    Raise(Object, u64, bool),
    Read(SectionKey),
    Guard(Holding),
    Confirm(Holding),
    Remote(String),
    Refresh,
    Wait,
}

/// A section object, compared by identity.
pub(crate) struct Object(pub(crate) Arc<Loaded>);

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Object {}

impl Hash for Object {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// What has become of a request's items so far.
#[derive(Default)]
struct SoFar {
    answers: Vec<Option<Result<Answer, Fault>>>,
    /// Why an item is not answered yet.
    why: HashMap<u32, (Reason, String)>,
    /// Taken for strict items, and waiting for a confirmation.
    held: HashMap<u32, Answer>,
    /// Whether the store was asked for a newer table.
    refreshed: bool,
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
        let mut todo: Vec<u32> = (0..items.len() as u32).collect();
        let mut work: Work<'_> = FuturesUnordered::new();
        loop {
            match self.namespace(call, items, &mut so_far.refreshed).await {
                Err(fault) => todo
                    .drain(..)
                    .for_each(|i| so_far.answers[i as usize] = Some(Err(fault.clone()))),
                Ok((table, namespace)) => {
                    let misses =
                        self.pass(call, &table, &namespace, items, &todo, &mut so_far.answers);
                    todo.clear();
                    let groups = self.sort(call, &table, misses, &mut so_far);
                    for (group, members) in groups {
                        if let Group::Confirm(holding) = group {
                            let taken = members
                                .iter()
                                .filter_map(|i| Some((*i, *so_far.held.get(i)?)));
                            work.push(Box::pin(self.confirmed(
                                call,
                                items,
                                holding,
                                taken.collect(),
                            )));
                        } else {
                            work.push(self.work(call, items, &table, group, members));
                        }
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
        let mut late = |index: usize| {
            let (reason, text) = so_far
                .why
                .remove(&(index as u32))
                .unwrap_or((Reason::Unreachable, "it was still under way".into()));
            Err(out_of_time(reason, &text))
        };
        so_far
            .answers
            .into_iter()
            .enumerate()
            .map(|(i, answer)| answer.unwrap_or_else(|| late(i)))
            .collect()
    }

    /// The namespace a call means. An unknown one may be new: the store is asked once a call.
    async fn namespace(
        &self,
        call: &Call<'_>,
        items: &[Item],
        refreshed: &mut bool,
    ) -> Result<(Arc<RoutingTable>, Namespace), Fault> {
        let name = items.first().map_or(call.namespace, |item| {
            namespace_name(call.namespace, item.key.key_ref())
        });
        loop {
            let table = self.table_by(call.deadline).await?;
            if let Some(namespace) = table.namespace(name) {
                let namespace = namespace.clone();
                return Ok((table, namespace));
            }
            if *refreshed {
                let text = format!(
                    "there is no namespace {name:?}; see `seqsvr namespace list` or make it with `seqsvr namespace create`"
                );
                return Err(Fault::new(Reason::NoSuchNamespace, text)
                    .with_routes(self.table.routes_for(call.table_version)));
            }
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

    /// Answers the misses that are final and groups the others by what they wait for.
    fn sort(
        &self,
        call: &Call<'_>,
        table: &RoutingTable,
        misses: Vec<(u32, Miss)>,
        so_far: &mut SoFar,
    ) -> HashMap<Group, Vec<u32>> {
        let mut groups: HashMap<Group, Vec<u32>> = HashMap::new();
        // A caller that knows a newer table than ours is not sent away before we have asked.
        let behind = call.table_version > table.version() && !so_far.refreshed;
        // A caller that routes by itself and is behind is redirected; any other is forwarded.
        let redirect =
            call.forwarded || (call.table_version != 0 && call.table_version < table.version());
        for (index, miss) in misses {
            let refuse = |reason, text: String| {
                self.counters.not_owner.add(1);
                Some(Err(
                    Fault::new(reason, text).with_routes(self.table.routes_for(call.table_version))
                ))
            };
            let group = match miss {
                Miss::Final(fault) => {
                    so_far.answers[index as usize] = Some(Err(fault));
                    continue;
                }
                Miss::Remote(_) | Miss::Wait(Reason::NotOwner, _) if behind => {
                    so_far.refreshed = true;
                    Group::Refresh
                }
                Miss::Remote(address) if redirect => {
                    so_far.answers[index as usize] =
                        refuse(Reason::NotOwner, format!("the owner is at {address}"));
                    continue;
                }
                Miss::Wait(reason, text) if call.forwarded => {
                    so_far.answers[index as usize] = refuse(reason, text);
                    continue;
                }
                Miss::Wait(reason, text) => {
                    so_far.why.insert(index, (reason, text));
                    Group::Wait
                }
                Miss::Open(section, slot) => {
                    so_far.why.insert(
                        index,
                        (
                            Reason::NoWindow,
                            format!(
                                "section {section} is being opened at the store ({})",
                                self.stores.list()
                            ),
                        ),
                    );
                    Group::Open(section, slot)
                }
                Miss::Refill(loaded, needed) => {
                    so_far.why.insert(index, (Reason::NoWindow, format!("the window of section {} is used up and no store of {} has confirmed a raise", loaded.key(), self.stores.list())));
                    Group::Refill(Object(loaded), needed)
                }
                Miss::Raise(loaded, to, force) => {
                    so_far.why.insert(
                        index,
                        (
                            Reason::NoWindow,
                            format!("the raise of section {} is not confirmed yet", loaded.key()),
                        ),
                    );
                    Group::Raise(Object(loaded), to, force)
                }
                Miss::Read(section) => {
                    so_far.why.insert(
                        index,
                        (
                            Reason::Unreachable,
                            format!("no store of {} has answered", self.stores.list()),
                        ),
                    );
                    Group::Read(section)
                }
                Miss::Guard(loaded) => {
                    so_far
                        .why
                        .insert(index, (Reason::Unreachable, self.not_confirmed()));
                    Group::Guard(loaded.holding())
                }
                Miss::Confirm(loaded, answer) => {
                    so_far
                        .why
                        .insert(index, (Reason::Unreachable, self.not_confirmed()));
                    so_far.held.insert(index, answer);
                    Group::Confirm(loaded.holding())
                }
                Miss::Remote(address) => {
                    so_far.why.insert(
                        index,
                        (
                            Reason::NotOwner,
                            format!("the owner at {address} has not answered"),
                        ),
                    );
                    Group::Remote(address)
                }
            };
            groups.entry(group).or_default().push(index);
        }
        groups
    }
}
