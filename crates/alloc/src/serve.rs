//! Serving a request: local items at once, the others by opening, refilling, forwarding, waiting,
//! each group on its own, so that no slow item hides another; all bounded by the deadline.

#![expect(
    clippy::mutable_key_type,
    reason = "section objects are hashed and compared by identity"
)]

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use seqsvr_core::id::{Epoch, SectionKey, Slot};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{CurrentKind, ReadRequest, Reason, SectionRef};
use tokio::time::{Instant, sleep, timeout_at};

use crate::ask::{Answer, Call, Item, Miss, out_of_time};
use crate::guard::{Holding, Verdict};
use crate::loaded::Loaded;
use crate::node::Node;

/// What became of an item: answered, or (None) to be tried again.
pub(crate) type Outcome = (u32, Option<Result<Answer, Fault>>);
type Work<'a> = FuturesUnordered<BoxFuture<'a, Vec<Outcome>>>;

/// How long one read of a section may take before the caller's item is tried anew.
const READ_FOR: Duration = Duration::from_secs(1);

/// Items that wait for the same thing.
#[derive(PartialEq, Eq, Hash)]
enum Group {
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
struct Object(Arc<Loaded>);

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

impl Node {
    /// Answers every item before the deadline, in order.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        call: &Call<'_>,
        items: &[Item],
    ) -> Vec<Result<Answer, Fault>> {
        let mut answers: Vec<Option<Result<Answer, Fault>>> = vec![None; items.len()];
        let mut why: HashMap<u32, (Reason, String)> = HashMap::new();
        let mut todo: Vec<u32> = (0..items.len() as u32).collect();
        let mut work: Work<'_> = FuturesUnordered::new();
        // Taken, and waiting for a confirmation.
        let mut held: HashMap<u32, Answer> = HashMap::new();
        let mut refreshed = false;
        loop {
            match self.namespace(call, items, &mut refreshed).await {
                Err(fault) => todo
                    .drain(..)
                    .for_each(|i| answers[i as usize] = Some(Err(fault.clone()))),
                Ok((table, namespace)) => {
                    let misses = self.pass(call, &table, &namespace, items, &todo, &mut answers);
                    todo.clear();
                    let groups = self.sort(
                        call,
                        &table,
                        misses,
                        &mut refreshed,
                        &mut answers,
                        &mut why,
                        &mut held,
                    );
                    for (group, members) in groups {
                        if let Group::Confirm(holding) = group {
                            let taken = members.iter().filter_map(|i| Some((*i, *held.get(i)?)));
                            work.push(Box::pin(self.confirmed(call, holding, taken.collect())));
                        } else {
                            work.push(self.work(call, items, &table, group, members));
                        }
                    }
                }
            }
            match timeout_at(call.deadline, work.next()).await {
                Ok(Some(outcomes)) => {
                    for (index, outcome) in outcomes {
                        held.remove(&index);
                        match outcome {
                            Some(outcome) => answers[index as usize] = Some(outcome),
                            None => todo.push(index),
                        }
                    }
                }
                // Nothing is under way, or the time is over.
                Ok(None) | Err(_) => break,
            }
        }
        // Never confirmed in time.
        held.values().for_each(|answer| self.burn(answer));
        let mut late = |index: usize| {
            let (reason, text) = why
                .remove(&(index as u32))
                .unwrap_or((Reason::Unreachable, "it was still under way".into()));
            Err(out_of_time(reason, &text))
        };
        answers
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
            *refreshed = true;
            self.refresh(call.deadline).await;
        }
    }

    /// Answers the misses that are final and groups the others by what they wait for.
    fn sort(
        &self,
        call: &Call<'_>,
        table: &RoutingTable,
        misses: Vec<(u32, Miss)>,
        refreshed: &mut bool,
        answers: &mut [Option<Result<Answer, Fault>>],
        why: &mut HashMap<u32, (Reason, String)>,
        held: &mut HashMap<u32, Answer>,
    ) -> HashMap<Group, Vec<u32>> {
        let mut groups: HashMap<Group, Vec<u32>> = HashMap::new();
        // A caller that knows a newer table than ours is not sent away before we have asked.
        let behind = call.table_version > table.version() && !*refreshed;
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
                    answers[index as usize] = Some(Err(fault));
                    continue;
                }
                Miss::Remote(_) if behind => {
                    *refreshed = true;
                    Group::Refresh
                }
                Miss::Remote(address) if redirect => {
                    answers[index as usize] =
                        refuse(Reason::NotOwner, format!("the owner is at {address}"));
                    continue;
                }
                Miss::Wait(reason, text) if call.forwarded => {
                    answers[index as usize] = refuse(reason, text);
                    continue;
                }
                Miss::Wait(reason, text) => {
                    why.insert(index, (reason, text));
                    Group::Wait
                }
                Miss::Open(section, slot) => {
                    why.insert(
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
                    why.insert(index, (Reason::NoWindow, format!("the window of section {} is used up and no store of {} has confirmed a raise", loaded.key(), self.stores.list())));
                    Group::Refill(Object(loaded), needed)
                }
                Miss::Raise(loaded, to, force) => {
                    why.insert(
                        index,
                        (
                            Reason::NoWindow,
                            format!("the raise of section {} is not confirmed yet", loaded.key()),
                        ),
                    );
                    Group::Raise(Object(loaded), to, force)
                }
                Miss::Read(section) => {
                    why.insert(
                        index,
                        (
                            Reason::Unreachable,
                            format!("no store of {} has answered", self.stores.list()),
                        ),
                    );
                    Group::Read(section)
                }
                Miss::Guard(loaded) => {
                    why.insert(index, (Reason::Unreachable, self.not_confirmed()));
                    Group::Guard(loaded.holding())
                }
                Miss::Confirm(loaded, answer) => {
                    why.insert(index, (Reason::Unreachable, self.not_confirmed()));
                    held.insert(index, answer);
                    Group::Confirm(loaded.holding())
                }
                Miss::Remote(address) => {
                    why.insert(
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

    /// Does what a group waits for; its items are then tried again or answered.
    fn work<'a>(
        self: &'a Arc<Self>,
        call: &'a Call<'_>,
        items: &'a [Item],
        table: &RoutingTable,
        group: Group,
        members: Vec<u32>,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        match group {
            Group::Refresh => Box::pin(async move {
                self.refresh(call.deadline).await;
                again(members)
            }),
            Group::Wait => {
                let mut changed = self.table.watch();
                changed.mark_unchanged();
                Box::pin(async move {
                    // A newer table, or a lease renewed meanwhile.
                    let _ =
                        tokio::time::timeout(Duration::from_millis(20), changed.changed()).await;
                    again(members)
                })
            }
            Group::Open(section, slot) => {
                let fence = Node::fence(table, slot, section);
                let session = self.session.load_full();
                Box::pin(async move {
                    let Some(session) = session else {
                        return again(members);
                    };
                    let opened = self.open(fence, session).await;
                    self.outcome(members, opened).await
                })
            }
            Group::Refill(Object(loaded), needed) => Box::pin(async move {
                match self.wait_for_window(&loaded, needed, call.deadline).await {
                    Ok(()) => again(members),
                    Err(fault) => done(members, &Err(fault)),
                }
            }),
            Group::Raise(Object(loaded), to, force) => Box::pin(async move {
                let raised = self.raise(&loaded, to, true, force).await;
                self.outcome(members, raised).await
            }),
            Group::Read(section) => Box::pin(self.read(
                section,
                Node::fence(table, table.slot_of(section), section).epoch,
                members,
            )),
            // Its answers are taken out by whoever calls this: see `serve`.
            Group::Confirm(_) => Box::pin(std::future::ready(again(members))),
            Group::Guard(holding) => Box::pin(async move {
                match self.confirm(holding).await {
                    Ok(Verdict::Stale) => {
                        self.step_down(holding);
                        self.refresh(call.deadline).await;
                        again(members)
                    }
                    Ok(Verdict::Ours) => {
                        self.counters.guard_alarms.add(1);
                        let text = "floor or epoch is above anything this cluster has given out; if it is genuine, numbers were lost (an old copy was restored): stop and ask an operator";
                        done(members, &Err(Fault::new(Reason::FloorUnknown, text)))
                    }
                    Err(fault) => self.outcome(members, Err(fault)).await,
                }
            }),
            Group::Remote(address) => Box::pin(self.forward(call, items, address, members)),
        }
    }

    /// After something a group waited for: tried again unless it failed for good.
    async fn outcome(&self, members: Vec<u32>, result: Result<(), Fault>) -> Vec<Outcome> {
        match result {
            Ok(()) => again(members),
            Err(fault) if passing(fault.reason()) => {
                self.pause().await;
                again(members)
            }
            Err(fault) => done(members, &Err(fault)),
        }
    }

    /// `Current` of a section that is not loaded: a store read that began after the request came.
    async fn read(&self, section: SectionKey, epoch: Epoch, members: Vec<u32>) -> Vec<Outcome> {
        let wire = SectionRef {
            namespace: section.namespace.0,
            section: section.section.0,
        };
        let request = ReadRequest {
            sections: vec![wire],
            ..ReadRequest::default()
        };
        let read = self
            .stores
            .call(Instant::now() + READ_FOR, READ_FOR, |channel| {
                let request = request.clone();
                async move { StoreClient::new(channel).read(request).await }
            })
            .await;
        match read.map(|r| r.sections.first().cloned()) {
            Ok(Some(row)) => {
                let table = self.table.load();
                let namespace = table
                    .as_deref()
                    .and_then(|t| t.namespace_by_id(section.namespace));
                let floor = namespace.map(|n| n.spec.progression.floor());
                let kind = if Some(row.max_seq) == floor {
                    CurrentKind::Never
                } else {
                    CurrentKind::AtMost
                };
                done(
                    members,
                    &Ok(Answer::Current {
                        kind,
                        value: row.max_seq,
                        epoch,
                    }),
                )
            }
            Ok(None) => done(
                members,
                &Err(Fault::new(
                    Reason::Unspecified,
                    "the store sent an empty answer",
                )),
            ),
            Err(fault) => self.outcome(members, Err(fault)).await,
        }
    }

    /// Answers of strict calls, once a store has confirmed what they rest on.
    async fn confirmed(
        &self,
        call: &Call<'_>,
        holding: Holding,
        taken: Vec<(u32, Answer)>,
    ) -> Vec<Outcome> {
        let verdict = self.confirm(holding).await;
        if let Ok(Verdict::Ours) = verdict {
            let answers = taken.into_iter();
            return answers.map(|(i, answer)| (i, Some(Ok(answer)))).collect();
        }
        let members = taken.iter().map(|(i, _)| *i).collect();
        taken.iter().for_each(|(_, answer)| self.burn(answer));
        match verdict {
            Err(fault) => self.outcome(members, Err(fault)).await,
            Ok(_) => {
                self.step_down(holding);
                self.refresh(call.deadline).await;
                again(members)
            }
        }
    }

    fn not_confirmed(&self) -> String {
        format!(
            "no store of {} has confirmed this owner",
            self.stores.list()
        )
    }

    /// A confirmation said that a holding does not stand: nothing of it is served again.
    fn step_down(&self, holding: Holding) {
        for loaded in self.sections.all() {
            if loaded.fence.slot == holding.slot && loaded.fence.epoch <= holding.epoch {
                self.sections.retire(&loaded);
            }
        }
    }

    /// A short wait before trying again what failed for a passing reason.
    pub(crate) async fn pause(&self) {
        sleep(self.random.jitter(Duration::from_millis(20))).await;
    }
}

/// Whether trying again may help.
pub(crate) fn passing(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NotOwner
            | Reason::NoLease
            | Reason::Unreachable
            | Reason::NotLeader
            | Reason::NoSuchSession
    )
}

pub(crate) fn again(members: Vec<u32>) -> Vec<Outcome> {
    members.into_iter().map(|i| (i, None)).collect()
}

pub(crate) fn done(members: Vec<u32>, answer: &Result<Answer, Fault>) -> Vec<Outcome> {
    members
        .into_iter()
        .map(|i| (i, Some(answer.clone())))
        .collect()
}
