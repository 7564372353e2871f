//! Resolves what items wait for. The items are then retried or answered.

use std::time::Duration;

use futures::future::BoxFuture;
use seqsvr_core::command::Fence;
use seqsvr_core::ids::{SectionKey, Slot};
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{CurrentKind, Reason};

use crate::batch::item::{ItemAnswer, RequestItem};
use crate::batch::request_context::RequestContext;
use crate::session::ownership::SlotOwnership;
use crate::slow_path::SlowPath;
use crate::slow_path::resolution::{Resolution, is_transient, resolve_all, retry_all};
use crate::slow_path::wait_key::{SectionPtr, WaitKey};
use crate::store_client::ownership_verifier::OwnershipVerdict;

impl SlowPath {
    /// Does what the items of a wait key wait for. They are then retried or answered.
    pub(super) fn resolve<'a>(
        &'a self,
        call: &'a RequestContext,
        items: &'a [RequestItem],
        table: &RoutingTable,
        wait_key: WaitKey,
        members: Vec<u32>,
    ) -> BoxFuture<'a, Vec<Resolution>> {
        match wait_key {
            WaitKey::Renewal => Box::pin(async move {
                self.shared.renewals.renew_and_wait(call.deadline).await;
                retry_all(members)
            }),
            WaitKey::Wait => {
                let mut changed = self.shared.table.subscribe();
                changed.mark_unchanged();
                Box::pin(async move {
                    // Ends early when a newer table comes. A renewed lease is found after the wait.
                    let _ =
                        tokio::time::timeout(Duration::from_millis(20), changed.changed()).await;
                    retry_all(members)
                })
            }
            WaitKey::Open(section, slot) => {
                let fence = section_fence(table, slot, section);
                let session = self.shared.session.load();
                Box::pin(async move {
                    let Some(session) = session else {
                        return retry_all(members);
                    };
                    // The semaphore is never closed, so an error cannot occur.
                    let _permit = call.opens.acquire().await;
                    let opened = self.lifecycle.open_section(fence, session).await;
                    self.retry_or_fail(members, opened).await
                })
            }
            WaitKey::Refill(SectionPtr(loaded), needed) => Box::pin(async move {
                match self
                    .refiller
                    .wait_for_window(&loaded, needed, call.deadline)
                    .await
                {
                    Ok(()) => retry_all(members),
                    Err(fault) => resolve_all(members, &Err(fault)),
                }
            }),
            WaitKey::Raise(SectionPtr(loaded), raise) => {
                let keys = members.iter().map(|i| items[*i as usize].key.clone());
                let raised = self.refiller.raise_to(loaded, raise, keys.collect());
                Box::pin(async move { self.retry_or_fail(members, raised.await).await })
            }
            WaitKey::Read(section) => {
                Box::pin(self.resolve_read(section, table.slot_of(section), members))
            }
            // The caller resolves these itself: see `serve_items`.
            WaitKey::ConfirmAnswers(_) => Box::pin(std::future::ready(retry_all(members))),
            WaitKey::VerifyOwnership(ownership) => Box::pin(async move {
                match self.ownership_verifier.verify(ownership).await {
                    Ok(OwnershipVerdict::Stale) => {
                        self.retire_stale_slot(ownership);
                        self.shared.renewals.renew_and_wait(call.deadline).await;
                        retry_all(members)
                    }
                    Ok(OwnershipVerdict::Current) => {
                        self.shared.counters.causality_violations.add(1);
                        let text = "floor or epoch is ahead of this cluster; if the value is genuine, data was lost (an old backup was restored): see docs/operations/backup.md";
                        let fault = RpcError::new(Reason::FloorAhead, text);
                        let reject = |i: u32| {
                            let requested = items[i as usize].epoch;
                            let fault = fault.clone().with_epochs(requested, ownership.epoch.0);
                            (i, Some(Err(fault)))
                        };
                        members.into_iter().map(reject).collect()
                    }
                    Err(fault) => self.retry_or_fail(members, Err(fault)).await,
                }
            }),
            WaitKey::Remote(address) => {
                Box::pin(self.forwarder.forward(call, items, address, members))
            }
        }
    }

    /// Retries the items after a wait, unless it failed permanently.
    async fn retry_or_fail(
        &self,
        members: Vec<u32>,
        result: Result<(), RpcError>,
    ) -> Vec<Resolution> {
        match result {
            Ok(()) => retry_all(members),
            Err(fault) if is_transient(fault.reason()) => {
                self.shared.random.back_off().await;
                retry_all(members)
            }
            Err(fault) => resolve_all(members, &Err(fault)),
        }
    }

    /// Answers `Current` of a section that is not loaded, by a store read that began after the
    /// request came. The epoch is that of the same read: another owner may have answered at a later
    /// epoch than that of the table here.
    async fn resolve_read(
        &self,
        section: SectionKey,
        slot: Slot,
        members: Vec<u32>,
    ) -> Vec<Resolution> {
        match self.section_reader.read(section, slot).await {
            Ok(row) => {
                let table = self.shared.table.load();
                let namespace = table
                    .as_deref()
                    .and_then(|t| t.namespace_by_id(section.namespace));
                let floor = namespace.map(|n| n.spec.progression.max_seq_floor());
                let kind = if Some(row.max_seq) == floor {
                    CurrentKind::Never
                } else {
                    CurrentKind::AtMost
                };
                resolve_all(
                    members,
                    &Ok(ItemAnswer::Current {
                        kind,
                        value: row.max_seq,
                        epoch: row.epoch,
                    }),
                )
            }
            Err(fault) => self.retry_or_fail(members, Err(fault)).await,
        }
    }

    /// Returns the answers of strict calls, once a store has confirmed what they rest on.
    pub(super) async fn confirm_answers(
        &self,
        call: &RequestContext,
        items: &[RequestItem],
        ownership: SlotOwnership,
        taken: Vec<(u32, ItemAnswer)>,
    ) -> Vec<Resolution> {
        let verdict = self.ownership_verifier.verify(ownership).await;
        if let Ok(OwnershipVerdict::Current) = verdict {
            let answers = taken.into_iter();
            return answers.map(|(i, answer)| (i, Some(Ok(answer)))).collect();
        }
        let members = taken.iter().map(|(i, _)| *i).collect();
        for (index, _) in &taken {
            let count = items[*index as usize].operation.number_count();
            self.shared.counters.numbers_discarded.add(count);
        }
        match verdict {
            Err(fault) => self.retry_or_fail(members, Err(fault)).await,
            Ok(_) => {
                self.retire_stale_slot(ownership);
                self.shared.renewals.renew_and_wait(call.deadline).await;
                retry_all(members)
            }
        }
    }

    /// Retires the sections of a slot that a confirmation found not to be owned at this epoch.
    fn retire_stale_slot(&self, ownership: SlotOwnership) {
        for loaded in self.sections.all() {
            if loaded.fence.slot == ownership.slot && loaded.fence.epoch <= ownership.epoch {
                self.sections.retire(&loaded);
            }
        }
    }
}

/// Returns the fence for a section of a slot that this AllocSvr owns by the table.
fn section_fence(table: &RoutingTable, slot: Slot, section: SectionKey) -> Fence {
    Fence {
        slot,
        epoch: table.route(slot).map(|r| r.epoch).unwrap_or_default(),
        section,
    }
}
