//! Where what cannot be answered from memory at once is served: opens, reads, raises, keys nobody
//! touched yet. Beside it the hot path must stay quick, so the binary gives this a runtime of its own
//! with threads of a lower priority (`docs/adr/0011-background.md` has the measurement); a simulation
//! keeps one runtime.
//!
//! Invariant: nothing here is needed to keep a lease or to answer what memory holds, so the hot path
//! outlives a background that gets no processor; and the background is never without one for ever,
//! because its threads are only lower in priority, not idle ones.

use std::future::poll_fn;
use std::pin::pin;

use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use tokio::runtime::Handle;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The runtime of what has to wait.
pub(crate) struct Background(Handle);

impl Background {
    /// On this runtime; None: on the one this is called in.
    pub(crate) fn new(runtime: Option<Handle>) -> Background {
        Background(runtime.unwrap_or_else(Handle::current))
    }

    /// Runs a task that a shutdown waits for.
    pub(crate) fn spawn(
        &self,
        tasks: &TaskTracker,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        tasks.spawn_on(courteous(task), &self.0);
    }

    /// Runs a part of a call; it ends when the call does.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        part: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Fault> {
        let ended = AbortOnDropHandle::new(self.0.spawn(courteous(part))).await;
        // Only a bug ends it otherwise.
        ended.map_err(|error| Fault::new(Reason::Unspecified, error.to_string()))
    }

    /// The runtime, for a set of tasks; they are to be [`courteous`].
    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }
}

/// A task that lets threads of a higher priority go first after each poll: Linux leaves a running thread
/// its slice of about a millisecond, whoever wakes up.
pub(crate) async fn courteous<T>(task: impl Future<Output = T>) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        let polled = task.as_mut().poll(cx);
        std::thread::yield_now();
        polled
    })
    .await
}
