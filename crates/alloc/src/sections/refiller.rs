//! Raises max_seq ahead of need, with one raise in flight for each section.
//!
//! Invariant: the answer to a raise widens only the object that requested it, and only if it names
//! that object's generation. A rejection retires the object only if it names that generation.

use std::sync::Arc;
use std::sync::atomic::Ordering::AcqRel;
use std::time::Duration;

use seqsvr_core::reached;
use seqsvr_core::section::TakeError;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1::rejected::Kind;
use seqsvr_proto::v1::section_command::Command;
use seqsvr_proto::v1::section_reply::Reply;
use seqsvr_proto::v1::{self, Reason};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::batch::item::ItemLocation;
use crate::sections::loaded_section::LoadedSection;
use crate::sections::section_map::SectionMap;
use crate::shared_parts::SharedParts;
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::refusal::{fault_from_refusal, unexpected_reply};
use crate::store_client::store_group::StoreGroupClient;

/// Maximum callers that wait for one section's window; above it calls are rejected with a retry
/// hint.
const WINDOW_WAITERS_MAX: u32 = 100_000;

/// Maximum wait of a RaiseTo for memory after its window was raised; after it counters without
/// memory stay as they are.
const MEMORY_WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// What a RaiseTo needs of the window of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WindowRaise {
    /// The number that the window must reach.
    pub(crate) to: u64,
    /// Ignores the namespace's limit on jumps.
    pub(crate) force: bool,
    /// Sets only counters of keys without a number.
    pub(crate) if_none: bool,
}

/// A waiting caller. Its drop counts it off, because a caller that cancels is dropped while it
/// waits.
struct WindowWaiter<'a>(&'a LoadedSection);

impl Drop for WindowWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiter_count.fetch_sub(1, AcqRel);
    }
}

/// Raises the windows of sections.
pub(crate) struct Refiller {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) stores: StoreGroupClient,
    pub(crate) command_queue: CommandQueue,
}

impl Refiller {
    /// Starts a raise if one is due and none is in flight.
    pub(crate) fn start_refill(self: &Arc<Self>, loaded: &Arc<LoadedSection>) {
        if loaded.try_begin_raise() {
            let (refiller, loaded) = (self.clone(), loaded.clone());
            self.shared.background.spawn_tracked(async move {
                refiller.raise_ahead(&loaded).await;
                loaded.end_raise();
                // Numbers used during the raise may have made the next one due.
                refiller.start_refill(&loaded);
            });
        }
    }

    async fn raise_ahead(&self, loaded: &Arc<LoadedSection>) {
        let Some(table) = self.shared.table.load() else {
            return;
        };
        let Some(namespace) = table.namespace_by_id(loaded.key().namespace) else {
            return;
        };
        let to = loaded.next_max_seq(self.shared.session.read_clock(), &namespace.spec);
        match self.raise_window(loaded, to, false, false).await {
            Ok(()) => {}
            Err(fault) if fault.reason() == Reason::JumpTooLarge => {
                // step_max was lowered. The next table shows it.
                self.shared.renewals.request_renewal();
                self.shared.random.back_off().await;
            }
            Err(fault) => {
                tracing::debug!(section = %loaded.key(), %fault, "raise failed");
                self.shared.random.back_off().await;
            }
        }
    }

    /// Raises the window for a RaiseTo of these keys, and sets their counters, even if the caller
    /// goes away.
    ///
    /// Invariant: a window that a RaiseTo opened is used by it, if there is memory within 60 s.
    /// Schedule that breaks it: the caller goes away while the raise is on its way; the window
    /// reaches up to raise_to_max numbers above the counters; the process dies, and all keys of the
    /// section jump by that much. A caller that goes away does not learn whether its call took
    /// effect, so it must expect that the counter is set.
    ///
    /// With `if_none` the counters are set only if the caller has gone away: the one call that
    /// moves a counter from 0 answers that there was no number, so the caller makes it itself. A
    /// caller whose key gets a number in between leaves a part of the window unused.
    pub(crate) async fn raise_to(
        self: &Arc<Self>,
        loaded: Arc<LoadedSection>,
        raise: WindowRaise,
        keys: Vec<KeyBuf>,
    ) -> Result<(), RpcError> {
        let (done, raised) = oneshot::channel();
        let refiller = self.clone();
        self.shared.background.spawn_tracked(async move {
            let WindowRaise { to, force, .. } = raise;
            let outcome = refiller.raise_window(&loaded, to, true, force).await;
            let is_raised = outcome.is_ok();
            if is_raised && !raise.if_none {
                refiller.set_counters(&loaded, raise, &keys).await;
            }
            let is_caller_gone = done.send(outcome).is_err();
            if is_raised && raise.if_none && is_caller_gone {
                refiller.set_counters(&loaded, raise, &keys).await;
            }
        });
        let ended = |_| {
            let text = "internal error: the raise was aborted; retry";
            RpcError::new(Reason::Unreachable, text)
        };
        raised.await.map_err(ended)?
    }

    /// Sets the counters of keys of a section whose window reaches `to`; never lowers one. Waits
    /// for memory, which `evictor` frees by closing sections.
    async fn set_counters(&self, loaded: &LoadedSection, raise: WindowRaise, keys: &[KeyBuf]) {
        let end = Instant::now() + MEMORY_WAIT_TIMEOUT;
        while self.set_counters_within_memory(loaded, raise, keys)
            && Instant::now() < end
            && !self.shared.stopping.is_cancelled()
        {
            self.shared.random.back_off().await;
        }
        loaded.record_jump();
    }

    /// Sets the counters for which there is memory, and returns whether one was left out.
    fn set_counters_within_memory(
        &self,
        loaded: &LoadedSection,
        raise: WindowRaise,
        keys: &[KeyBuf],
    ) -> bool {
        let Some(table) = self.shared.table.load() else {
            return false;
        };
        let Some(namespace) = table.namespace_by_id(loaded.key().namespace) else {
            return false;
        };
        let mut lacks_memory = false;
        for key in keys {
            if let Ok(location) = ItemLocation::locate(key.as_ref(), namespace, &table) {
                // If it is sealed by now, its high-water mark was or is taken, and the next
                // generation starts above it.
                let key = location.key_in_section();
                let set = match raise.if_none {
                    true => loaded.section.raise_untouched(key, raise.to).map(drop),
                    false => loaded.section.raise_to(key, raise.to).map(drop),
                };
                lacks_memory |= set == Err(TakeError::MemoryExhausted);
            }
        }
        lacks_memory
    }

    /// Raises max_seq of this generation and widens its window.
    async fn raise_window(
        &self,
        loaded: &Arc<LoadedSection>,
        to: u64,
        raise_to: bool,
        force: bool,
    ) -> Result<(), RpcError> {
        if loaded.section.is_sealed() {
            return Ok(());
        }
        let raise = v1::Raise {
            generation: loaded.generation.0,
            to,
            raise_to,
            force,
        };
        let fence = Some(loaded.fence.into());
        let submitted = self.command_queue.submit(fence, Command::Raise(raise));
        match submitted.await? {
            Reply::Raised(raised) => {
                if raised.generation == loaded.generation.0 {
                    loaded.section.widen_to(raised.max_seq);
                    loaded.changed.notify_waiters();
                }
                // After the window is wider: a raise that is counted can be used.
                self.shared.counters.raises.add(1);
                Ok(())
            }
            Reply::Rejected(refused) => {
                let is_gone = match refused.kind() {
                    Kind::NotOwner | Kind::NamespaceNotFound => true,
                    Kind::StaleGeneration => refused.generation == loaded.generation.0,
                    _ => false,
                };
                if is_gone {
                    self.sections.retire(loaded);
                }
                Err(fault_from_refusal(&refused, &self.shared.renewals))
            }
            Reply::Opened(_) | Reply::Closed(_) => Err(unexpected_reply()),
        }
    }

    /// Waits until the window reaches `needed`, the object is retired, or the deadline passes.
    pub(crate) async fn wait_for_window(
        self: &Arc<Self>,
        loaded: &Arc<LoadedSection>,
        needed: u64,
        deadline: Instant,
    ) -> Result<(), RpcError> {
        let before = loaded.waiter_count.fetch_add(1, AcqRel);
        let _waiter = WindowWaiter(loaded);
        if before >= WINDOW_WAITERS_MAX {
            return Err(RpcError::new(
                Reason::Overloaded,
                format!("too many callers wait for this section's window: at most {WINDOW_WAITERS_MAX}; retry later"),
            )
            .with_retry_after_ms(100));
        }
        self.shared.counters.window_waits.add(1);
        reached!("alloc: a call waited for the window");
        loaded.require_window(needed);
        let waited = tokio::time::timeout_at(deadline, async {
            loop {
                let changed = loaded.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if loaded.section.max_seq() >= needed || loaded.section.is_sealed() {
                    return;
                }
                self.start_refill(loaded);
                changed.await;
            }
        })
        .await;
        waited.map_err(|_| {
            RpcError::new(Reason::WindowExhausted, format!(
                "the window of section {} is used up and no store of {} confirmed a raise in time; check the stores and retry",
                loaded.key(), self.stores.address_list()
            ))
        })
    }
}
