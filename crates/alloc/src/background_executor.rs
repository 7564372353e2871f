//! Executor for requests that cannot be answered from memory: opens, reads, raises, keys that are
//! new to memory. The fast path must not be slowed by it, so the binary gives it a runtime of its
//! own with threads of lower priority (`docs/adr/0011-slow-path-runtime.md` has the measurement). A
//! simulation has one runtime.
//!
//! Invariant: no task here is needed to keep a lease or to answer what memory holds. So the fast
//! path continues when the background gets no processor. The background is never without a
//! processor permanently, because its threads only have a lower priority; they are not idle
//! threads.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::{Duration, Instant};

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Time that a thread serves before it yields to threads of higher priority. Linux leaves a running
/// thread its slice of about a millisecond, whichever thread wakes up. The interval is not shorter,
/// because on a busy machine each yield may cost the thread the slices of all threads that wait.
const YIELD_INTERVAL: Duration = Duration::from_micros(200);

thread_local! {
    /// Time that this thread has served since its last yield.
    static TIME_SINCE_YIELD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Executor of the slow path and of maintenance tasks; clones share it.
#[derive(Clone)]
pub(crate) struct BackgroundExecutor {
    runtime: Handle,
    /// Tasks that a shutdown waits for.
    tasks: TaskTracker,
    /// Whether the runtime has threads of its own.
    has_own_threads: bool,
}

impl BackgroundExecutor {
    /// Creates an executor on this runtime; None: on the current runtime. A shutdown waits for
    /// `tasks`.
    pub(crate) fn new(runtime: Option<Handle>, tasks: TaskTracker) -> BackgroundExecutor {
        BackgroundExecutor {
            tasks,
            has_own_threads: runtime.is_some(),
            runtime: runtime.unwrap_or_else(Handle::current),
        }
    }

    /// Spawns a task that a shutdown waits for.
    pub(crate) fn spawn_tracked(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(
            with_periodic_yield(self.has_own_threads, task),
            &self.runtime,
        );
    }

    /// Spawns a task into a set.
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

    /// Runs a part of a call. It is aborted when the call ends.
    pub(crate) async fn run_for_call<T: Send + 'static>(
        &self,
        part: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RpcError> {
        let part = self
            .runtime
            .spawn(with_periodic_yield(self.has_own_threads, part));
        let joined = AbortOnDropHandle::new(part).await;
        // Fails only by a bug.
        joined.map_err(|error| RpcError::new(Reason::Unspecified, error.to_string()))
    }
}

/// Runs a task whose thread, if it is one of the executor's own, yields to threads of higher
/// priority after each [`YIELD_INTERVAL`].
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
