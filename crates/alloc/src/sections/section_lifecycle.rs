//! Opens and closes sections at the store.
//!
//! Invariant: a generation for which a close was sent is dead here, whether the close succeeds or
//! fails. It is sealed and taken out of the map before the close is sent, and the next open waits
//! until the answer has come.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::command::Fence;
use seqsvr_core::ids::SectionKey;
use seqsvr_core::namespace::Namespace;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::rejected::Kind;
use seqsvr_proto::v1::section_command::Command;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::{self, Reason};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::sections::loaded_section::LoadedSection;
use crate::sections::section_map::{SectionMap, TransitionResult, wait_for_transition};
use crate::session::leased_session::LeasedSession;
use crate::shared_parts::SharedParts;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::refusal::{fault_from_refusal, unexpected_reply};

/// Maximum sections being opened at a time. Above it opens wait in their order, with few of each
/// call. (Closes are limited where they begin.)
const OPENS_IN_FLIGHT_MAX: usize = 4_096;
/// Maximum wait for a table with a newer step; after it the open fails.
const STEP_RENEWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// An open or a close in progress. When it is dropped, callers that wait for it get its result.
///
/// Invariant: an open or a close ends, however its task ends. Schedule that breaks it: the task
/// panics; its section stays among those in progress; each later call of it, each move of its slot
/// and the shutdown wait for a result that never comes.
struct SectionTransition {
    sections: Arc<SectionMap>,
    key: SectionKey,
    result_sender: watch::Sender<TransitionResult>,
    result: Option<Result<(), RpcError>>,
}

impl SectionTransition {
    fn new(
        sections: Arc<SectionMap>,
        key: SectionKey,
        result_sender: watch::Sender<TransitionResult>,
    ) -> SectionTransition {
        SectionTransition {
            sections,
            key,
            result_sender,
            result: None,
        }
    }

    fn finish(mut self, result: Result<(), RpcError>) {
        self.result = Some(result);
    }
}

impl Drop for SectionTransition {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| {
            let text = "internal error: the open or close of the section was aborted; retry";
            Err(RpcError::new(Reason::Unreachable, text))
        });
        self.sections
            .end_transition(self.key, &self.result_sender, result);
    }
}

/// Opens and closes sections.
pub(crate) struct SectionLifecycle {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) command_queue: CommandQueue,
    /// Permits to open a section.
    pub(crate) open_permits: Arc<Semaphore>,
}

impl SectionLifecycle {
    pub(crate) fn new(
        shared: SharedParts,
        sections: Arc<SectionMap>,
        command_queue: CommandQueue,
    ) -> SectionLifecycle {
        SectionLifecycle {
            shared,
            sections,
            command_queue,
            open_permits: Arc::new(Semaphore::new(OPENS_IN_FLIGHT_MAX)),
        }
    }

    /// Loads a section that this node owns at `fence`. Concurrent callers join. The open continues
    /// if the caller gives up.
    pub(crate) async fn open_section(
        self: &Arc<Self>,
        fence: Fence,
        session: Arc<LeasedSession>,
    ) -> Result<(), RpcError> {
        let key = fence.section;
        // The semaphore is never closed, so an error cannot occur.
        let permit = self.open_permits.clone().acquire_owned().await;
        let result_sender = match self.sections.begin_transition(fence) {
            Ok(result_sender) => result_sender,
            Err(joined) => {
                drop(permit);
                return wait_for_transition(joined?).await;
            }
        };
        let result_receiver = result_sender.subscribe();
        let transition = SectionTransition::new(self.sections.clone(), key, result_sender);
        let lifecycle = self.clone();
        self.shared.background.spawn_tracked(async move {
            let _permit = permit;
            let opened = lifecycle.open_at_store(fence, session).await;
            transition.finish(opened);
        });
        wait_for_transition(result_receiver).await
    }

    async fn open_at_store(
        &self,
        fence: Fence,
        session: Arc<LeasedSession>,
    ) -> Result<(), RpcError> {
        if self
            .sections
            .get(fence.section)
            .is_some_and(|l| l.fence == fence && !l.section.is_sealed())
        {
            return Ok(());
        }
        loop {
            let namespace = self.namespace_of(fence.section)?;
            let step = namespace.spec.step;
            let nonce: u128 = self.shared.random.draw();
            // If this process does not know the last generation, the store fills in the one that it
            // has applied, at each attempt. The fence keeps out a process that lost the slot. The
            // nonce keeps a retry from opening twice while the generation is open. Schedule that
            // the nonce does not stop: the second attempt is applied, the section is closed, the
            // first attempt arrives. It begins a generation that nothing uses. This costs a window,
            // and no number is repeated. The row has no epoch, so only a longer row, or one more
            // round trip for each first Open, would detect the duplicate (docs/invariants.md).
            let open = v1::Open {
                expected: self.sections.last_generation(fence),
                nonce: u128_to_bytes(nonce),
                step,
            };
            let submitted = self
                .command_queue
                .submit(Some(fence.into()), Command::Open(open));
            match submitted.await? {
                Reply::Opened(opened) => {
                    self.shared.counters.opens.add(1);
                    let section = self.sections.build_section(&namespace, &opened);
                    self.sections
                        .publish(LoadedSection::new(fence, session, section, step));
                    return Ok(());
                }
                Reply::Rejected(refused) if refused.kind() == Kind::Invalid => {
                    self.wait_for_new_step(fence.section, step, &refused)
                        .await?;
                }
                Reply::Rejected(refused) => {
                    if refused.kind() == Kind::StaleGeneration {
                        self.sections
                            .record_generation(fence, refused.expected_value);
                    }
                    return Err(fault_from_refusal(&refused, &self.shared.renewals));
                }
                Reply::Raised(_) | Reply::Closed(_) => return Err(unexpected_reply()),
            }
        }
    }

    /// Waits until the table has another step than the one that the store rejected.
    ///
    /// Invariant: a caller gets no error because an operator lowered step and step_max. Schedule
    /// that breaks it: an Open waits for the store; step and step_max are lowered; the Open arrives
    /// with the old step, and the state rejects it. Another attempt is made only if the step has
    /// changed, so this ends.
    async fn wait_for_new_step(
        &self,
        section: SectionKey,
        step: u32,
        refused: &v1::Rejected,
    ) -> Result<(), RpcError> {
        let is_renewed = self
            .shared
            .renewals
            .renew_and_wait(Instant::now() + STEP_RENEWAL_TIMEOUT)
            .await;
        match self.namespace_of(section)?.spec.step != step {
            true => Ok(()),
            false if is_renewed => Err(fault_from_refusal(refused, &self.shared.renewals)),
            false => {
                let text = format!(
                    "the step of section {section} has changed and no store has sent the new one yet; retry"
                );
                Err(RpcError::new(Reason::Unreachable, text))
            }
        }
    }

    fn namespace_of(&self, section: SectionKey) -> Result<Namespace, RpcError> {
        let table = self.shared.table.load();
        let table = table.ok_or_else(|| RpcError::new(Reason::NotOwner, "no routing table yet"))?;
        let namespace = table.namespace_by_id(section.namespace).cloned();
        namespace
            .ok_or_else(|| RpcError::new(Reason::NamespaceNotFound, "the namespace does not exist"))
    }

    /// Closes a section: the next owner, or this node, continues right above the highest number
    /// used. The close continues if the caller gives up, because the section is sealed by then.
    pub(crate) async fn close_section(self: &Arc<Self>, loaded: Arc<LoadedSection>) {
        let Ok(result_sender) = self.sections.begin_transition(loaded.fence) else {
            return;
        };
        let result_receiver = result_sender.subscribe();
        let transition = SectionTransition::new(self.sections.clone(), loaded.key(), result_sender);
        let lifecycle = self.clone();
        self.shared.background.spawn_tracked(async move {
            lifecycle.close_at_store(loaded).await;
            transition.finish(Ok(()));
        });
        let _ = wait_for_transition(result_receiver).await;
    }

    async fn close_at_store(&self, loaded: Arc<LoadedSection>) {
        if self.sections.retire(&loaded) {
            self.sections
                .record_generation(loaded.fence, loaded.generation.0);
            let last = loaded.wait_drained().await;
            // With any answer, this generation is dead here.
            match self.command_queue.submit_close(&last).await {
                Ok(Reply::Closed(_)) => self.shared.counters.closes.add(1),
                Ok(_) => {}
                Err(_) => self.sections.record_unconfirmed_close(loaded.key(), last),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::test_util::test_section;

    /// Schedule: the task of an open is dropped before its end, as by a panic.
    #[tokio::test]
    async fn aborted_open_ends_with_error() {
        let sections = Arc::new(SectionMap::new([1, 2]));
        let fence = test_section(1, 10).fence;
        let result_sender = sections.begin_transition(fence).unwrap();
        let waits = wait_for_transition(result_sender.subscribe());
        drop(SectionTransition::new(
            sections.clone(),
            fence.section,
            result_sender,
        ));
        let fault = waits.await.expect_err("the close was interrupted");
        assert_eq!(fault.reason(), Reason::Unreachable);
        sections.wait_until_idle(fence.slot).await;
        assert!(sections.begin_transition(fence).is_ok());
    }
}
