//! What items of a request wait for, and what becomes of them then: tried again, or answered.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use seqsvr_core::id::{SectionKey, Slot};
use seqsvr_core::route::RoutingTable;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{CurrentKind, Reason};
use tokio::time::sleep;

use crate::ask::{ItemAnswer, RequestContext, RequestItem};
use crate::group::{SectionPtr, WaitKey};
use crate::guard::{OwnershipVerdict, SlotOwnership};
use crate::node::Node;

/// What became of an item: answered, or (None) to be tried again.
pub(crate) type Resolution = (u32, Option<Result<ItemAnswer, Fault>>);

impl Node {
    /// Does what a group waits for; its items are then tried again or answered.
    pub(crate) fn work<'a>(
        self: &'a Arc<Self>,
        call: &'a RequestContext,
        items: &'a [RequestItem],
        table: &RoutingTable,
        group: WaitKey,
        members: Vec<u32>,
    ) -> BoxFuture<'a, Vec<Resolution>> {
        match group {
            WaitKey::Renewal => Box::pin(async move {
                self.refresh(call.deadline).await;
                again(members)
            }),
            WaitKey::Wait => {
                let mut changed = self.table.watch();
                changed.mark_unchanged();
                Box::pin(async move {
                    // A newer table, or a lease renewed meanwhile.
                    let _ =
                        tokio::time::timeout(Duration::from_millis(20), changed.changed()).await;
                    again(members)
                })
            }
            WaitKey::Open(section, slot) => {
                let fence = Node::fence(table, slot, section);
                let session = self.session.load_full();
                Box::pin(async move {
                    let Some(session) = session else {
                        return again(members);
                    };
                    // Never closed: an error cannot come.
                    let _permit = call.opens.acquire().await;
                    let opened = self.open(fence, session).await;
                    self.outcome(members, opened).await
                })
            }
            WaitKey::Refill(SectionPtr(loaded), needed) => Box::pin(async move {
                match self.wait_for_window(&loaded, needed, call.deadline).await {
                    Ok(()) => again(members),
                    Err(fault) => done(members, &Err(fault)),
                }
            }),
            WaitKey::Raise(SectionPtr(loaded), to, force) => {
                let keys = members.iter().map(|i| items[*i as usize].key.clone());
                let raised = self.raise_to(loaded, to, force, keys.collect());
                Box::pin(async move { self.outcome(members, raised.await).await })
            }
            WaitKey::Read(section) => Box::pin(self.read(section, table.slot_of(section), members)),
            // Its answers are taken out by whoever calls this: see `serve`.
            WaitKey::ConfirmAnswers(_) => Box::pin(std::future::ready(again(members))),
            WaitKey::VerifyOwnership(holding) => Box::pin(async move {
                match self.confirm(holding).await {
                    Ok(OwnershipVerdict::Stale) => {
                        self.step_down(holding);
                        self.refresh(call.deadline).await;
                        again(members)
                    }
                    Ok(OwnershipVerdict::Current) => {
                        self.counters.guard_alarms.add(1);
                        let text = "floor or epoch is above anything this cluster has given out; if it is genuine, numbers were lost (an old copy was restored): stop and ask an operator";
                        done(members, &Err(Fault::new(Reason::FloorUnknown, text)))
                    }
                    Err(fault) => self.outcome(members, Err(fault)).await,
                }
            }),
            WaitKey::Remote(address) => Box::pin(self.forward(call, items, address, members)),
        }
    }

    /// After something a group waited for: tried again unless it failed for good.
    async fn outcome(&self, members: Vec<u32>, result: Result<(), Fault>) -> Vec<Resolution> {
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
    /// The epoch is that of the same read: our table's may be one that another owner has answered
    /// above.
    async fn read(&self, section: SectionKey, slot: Slot, members: Vec<u32>) -> Vec<Resolution> {
        match self.read_section(section, slot).await {
            Ok(row) => {
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
                    &Ok(ItemAnswer::Current {
                        kind,
                        value: row.max_seq,
                        epoch: row.epoch,
                    }),
                )
            }
            Err(fault) => self.outcome(members, Err(fault)).await,
        }
    }

    /// Answers of strict calls, once a store has confirmed what they rest on.
    pub(crate) async fn confirmed(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
        holding: SlotOwnership,
        taken: Vec<(u32, ItemAnswer)>,
    ) -> Vec<Resolution> {
        let verdict = self.confirm(holding).await;
        if let Ok(OwnershipVerdict::Current) = verdict {
            let answers = taken.into_iter();
            return answers.map(|(i, answer)| (i, Some(Ok(answer)))).collect();
        }
        let members = taken.iter().map(|(i, _)| *i).collect();
        for (index, _) in &taken {
            self.burn(items[*index as usize].ask);
        }
        match verdict {
            Err(fault) => self.outcome(members, Err(fault)).await,
            Ok(_) => {
                self.step_down(holding);
                self.refresh(call.deadline).await;
                again(members)
            }
        }
    }

    /// A confirmation said that a holding does not stand: nothing of it is served again.
    fn step_down(&self, holding: SlotOwnership) {
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
            // A process of another cluster has the owner's address: the next table tells.
            | Reason::ClusterMismatch
    )
}

pub(crate) fn again(members: Vec<u32>) -> Vec<Resolution> {
    members.into_iter().map(|i| (i, None)).collect()
}

pub(crate) fn done(members: Vec<u32>, answer: &Result<ItemAnswer, Fault>) -> Vec<Resolution> {
    members
        .into_iter()
        .map(|i| (i, Some(answer.clone())))
        .collect()
}
