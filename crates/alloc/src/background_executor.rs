//! Where what cannot be answered from memory at once is served: opens, reads, raises, keys nobody
//! touched yet. Beside it the hot path must stay quick, so the binary gives this a runtime of its
//! own with threads of a lower priority (`docs/adr/0011-background.md` has the measurement); a
//! simulation keeps one runtime.
//!
//! Invariant: nothing here is needed to keep a lease or to answer what memory holds, so the hot
//! path outlives a background that gets no processor; and the background is never without one for
//! ever, because its threads are only lower in priority, not idle ones.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// How long a thread serves before it lets others of a higher priority have their turn: Linux
/// leaves a running thread its slice of about a millisecond, whoever wakes up. Not oftener: on a
/// busy machine each such offer may cost it the slices of all who wait.
const YIELD_INTERVAL: Duration = Duration::from_micros(200);

thread_local! {
    /// Time this thread has served since its last offer.
    static TIME_SINCE_YIELD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The runtime of what has to wait.
pub(crate) struct BackgroundExecutor {
    runtime: Handle,
    /// It has threads of its own.
    has_own_threads: bool,
}

impl BackgroundExecutor {
    /// On this runtime; None: on the one this is called in.
    pub(crate) fn new(runtime: Option<Handle>) -> BackgroundExecutor {
        BackgroundExecutor {
            has_own_threads: runtime.is_some(),
            runtime: runtime.unwrap_or_else(Handle::current),
        }
    }

    /// Runs a task that a shutdown waits for.
    pub(crate) fn spawn_tracked(
        &self,
        tasks: &TaskTracker,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        tasks.spawn_on(
            with_periodic_yield(self.has_own_threads, task),
            &self.runtime,
        );
    }

    /// Runs a task as one of a set.
    pub(crate) fn spawn_into_set<T: Send + 'static>(
        &self,
        set: &mut JoinSet<T>,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        set.spawn_on(
            with_periodic_yield(self.has_own_threads, task),
            &self.runtime,
        );
    }

    /// Runs a part of a call; it ends when the call does.
    pub(crate) async fn run_for_call<T: Send + 'static>(
        &self,
        part: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Fault> {
        let part = self
            .runtime
            .spawn(with_periodic_yield(self.has_own_threads, part));
        let joined = AbortOnDropHandle::new(part).await;
        // Only a bug ends it otherwise.
        joined.map_err(|error| Fault::new(Reason::Unspecified, error.to_string()))
    }
}

/// A task whose thread, if it is `has_own_threads`, lets those of a higher priority go first when its turn is
/// over.
async fn with_periodic_yield<T>(has_own_threads: bool, task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        if !has_own_threads {
            return task.as_mut().poll(cx);
        }
        let begin = Instant::now();
        let polled = task.as_mut().poll(cx);
        let served = TIME_SINCE_YIELD.get() + begin.elapsed();
        let is_yield_due = served >= YIELD_INTERVAL;
        TIME_SINCE_YIELD.set(if is_yield_due { Duration::ZERO } else { served });
        if is_yield_due {
            std::thread::yield_now();
        }
        polled
    })
    .await
}
