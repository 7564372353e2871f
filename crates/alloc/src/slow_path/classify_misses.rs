//! Turns each miss into an answer, or into something its item waits for.

use seqsvr_core::routing_table::RoutingTable;
use seqsvr_core::section::TakeError;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

use crate::batch::request_context::RequestContext;
use crate::slow_path::SlowPath;
use crate::slow_path::miss_reason::MissReason;
use crate::slow_path::progress::RequestProgress;
use crate::slow_path::wait_key::{PendingReason, SectionPtr, WaitKey};
use crate::slow_path::wait_limiter::{RETRY_AFTER_MS, WaitPermits};

impl SlowPath {
    /// Returns the error of an item that was not answered in time.
    pub(super) fn timeout_error(&self, why: Option<&PendingReason>) -> RpcError {
        let stores = || self.stores.address_list();
        let (reason, text) = match why {
            Some(PendingReason::Opening(section)) => (
                Reason::WindowExhausted,
                format!(
                    "no store of {} has opened section {section} yet; if this lasts, check that most of them run and reach each other",
                    stores()
                ),
            ),
            Some(PendingReason::Window(section)) => (
                Reason::WindowExhausted,
                format!(
                    "the window of section {section} is used up and no store of {} has confirmed a raise",
                    stores()
                ),
            ),
            Some(PendingReason::Raising(section)) => (
                Reason::WindowExhausted,
                format!("the raise of section {section} is not confirmed yet"),
            ),
            Some(PendingReason::Store) => (
                Reason::Unreachable,
                format!("no store of {} has answered", stores()),
            ),
            Some(PendingReason::NotConfirmed) => (
                Reason::Unreachable,
                format!("no store of {} has confirmed this owner", stores()),
            ),
            Some(PendingReason::Owner(address)) => (
                Reason::NotOwner,
                format!("the owner at {address} has not answered"),
            ),
            // The client retries this reason only if it has a hint.
            Some(PendingReason::NoMemory) => {
                let text = format!(
                    "{} while sections are closed; if this lasts, raise --section-memory-mib of AllocSvr",
                    TakeError::MemoryExhausted
                );
                return RpcError::new(Reason::Overloaded, text).with_retry_after_ms(RETRY_AFTER_MS);
            }
            Some(PendingReason::Other(reason, text)) => (*reason, text.clone()),
            Some(PendingReason::RoutingTableCell) | None => (
                Reason::Unreachable,
                "the call was still in progress".to_owned(),
            ),
        };
        timeout_error_for(reason, &text)
    }

    /// Answers the misses that are final, and those that would have to wait and get no permit. Adds
    /// the others to the items of their wait key. `is_behind`: the caller has a newer table, and
    /// the store has not been queried for it yet.
    pub(super) fn classify_misses(
        &self,
        call: &RequestContext,
        is_behind: bool,
        table: &RoutingTable,
        misses: impl Iterator<Item = (u32, MissReason)>,
        progress: &mut RequestProgress,
        permits: &mut WaitPermits<'_>,
    ) {
        // A caller that routes by itself and is behind is redirected; any other is forwarded.
        let should_redirect =
            call.forwarded || (call.table_version != 0 && call.table_version < table.version());
        // Created once for all, so that a rejected batch of many items costs little.
        let mut permit_error: Option<RpcError> = None;
        for (index, miss) in misses {
            let reject = |reason, text: String| {
                self.shared.counters.not_owner.add(1);
                Err(RpcError::new(reason, text))
            };
            // Wait key of the item, or the error with which it is rejected at once.
            let waits_for = match miss {
                MissReason::Final(fault) => Err(fault),
                MissReason::Remote(_) | MissReason::Wait(Reason::NotOwner, _) if is_behind => {
                    progress.is_renewed = true;
                    Ok((WaitKey::Renewal, PendingReason::RoutingTableCell))
                }
                MissReason::Remote(address) if should_redirect => {
                    reject(Reason::NotOwner, format!("the owner is at {address}"))
                }
                // Another AllocSvr may own the slot.
                MissReason::Wait(reason, text) if call.forwarded => reject(reason, text),
                MissReason::Wait(reason, text) => {
                    Ok((WaitKey::Wait, PendingReason::Other(reason, text)))
                }
                MissReason::NoMemory => Ok((WaitKey::Wait, PendingReason::NoMemory)),
                MissReason::Open(section, slot) => Ok((
                    WaitKey::Open(section, slot),
                    PendingReason::Opening(section),
                )),
                MissReason::Refill(loaded, needed) => {
                    let why = PendingReason::Window(loaded.key());
                    Ok((WaitKey::Refill(SectionPtr(loaded), needed), why))
                }
                MissReason::Raise(loaded, raise) => {
                    let why = PendingReason::Raising(loaded.key());
                    Ok((WaitKey::Raise(SectionPtr(loaded), raise), why))
                }
                MissReason::Read(section) => Ok((WaitKey::Read(section), PendingReason::Store)),
                MissReason::VerifyOwnership(loaded) => Ok((
                    WaitKey::VerifyOwnership(loaded.ownership()),
                    PendingReason::NotConfirmed,
                )),
                MissReason::ConfirmAnswer(loaded, answer) => {
                    progress.awaiting_confirmation.insert(index, answer);
                    Ok((
                        WaitKey::ConfirmAnswers(loaded.ownership()),
                        PendingReason::NotConfirmed,
                    ))
                }
                MissReason::Remote(address) => Ok((
                    WaitKey::Remote(address.clone()),
                    PendingReason::Owner(address),
                )),
            };
            let (wait_key, why) = match waits_for {
                Ok(waits_for) => waits_for,
                Err(fault) => {
                    progress.answers[index as usize] = Some(Err(fault));
                    continue;
                }
            };
            if permit_error.is_none() {
                permit_error = permits
                    .acquire(&self.shared.counters.queue_rejections)
                    .err();
            }
            if let Some(fault) = &permit_error {
                // Its number, if it took one, is discarded at the end.
                progress.answers[index as usize] = Some(Err(fault.clone()));
                continue;
            }
            progress.pending_reasons.insert(index, why);
            progress
                .waiting_items
                .entry(wait_key)
                .or_default()
                .push(index);
        }
    }
}

/// Returns the error of an item that ran out of time.
fn timeout_error_for(reason: Reason, why: &str) -> RpcError {
    RpcError::new(reason, format!("{why}: deadline exceeded; retry"))
        .with_code(tonic::Code::Unavailable)
}

#[cfg(test)]
mod tests {
    use seqsvr_proto::v1::NextManyRequest;
    use tokio::time::Instant;

    use super::*;
    use crate::batch::request::BatchRequest;
    use crate::batch::request_context::local_operator;
    use crate::fast_path::tests::FastPathFixture;

    /// Schedule: another AllocSvr forwarded the call, and this owner closes sections to make room.
    #[tokio::test]
    async fn forwarded_item_without_memory_waits() {
        let fixture = FastPathFixture::new().await;
        let batch = BatchRequest::from(NextManyRequest {
            uids: vec![7],
            forwarded: true,
            ..NextManyRequest::default()
        });
        let call = batch.to_context(&local_operator(), Instant::now(), None, None);
        let table = fixture.table.load().unwrap();
        let mut progress = RequestProgress {
            answers: vec![None],
            ..RequestProgress::default()
        };
        let slow_path = &fixture.slow_path;
        let mut permits = slow_path.wait_limiter.permits_for(None, 1);
        let misses = std::iter::once((0, MissReason::NoMemory));
        slow_path.classify_misses(&call, false, &table, misses, &mut progress, &mut permits);
        assert!(progress.answers[0].is_none(), "not refused");
        assert_eq!(progress.waiting_items[&WaitKey::Wait], [0]);
    }

    #[tokio::test]
    async fn timeout_for_memory_has_retry_hint() {
        let fixture = FastPathFixture::new().await;
        let slow_path = &fixture.slow_path;
        let fault = slow_path.timeout_error(Some(&PendingReason::NoMemory));
        assert_eq!(fault.code, tonic::Code::ResourceExhausted);
        assert!(fault.detail.retry_after_ms > 0);
    }
}
