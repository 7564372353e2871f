//! Callbacks that the log's writer thread calls once a write is durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use openraft::storage::IOFlushed;
use seqsvr_metrics::Histogram;
use tokio::sync::oneshot;

use crate::storage::first_error::FirstError;
use crate::types::TypeConfig;

/// Completion of one write. Invariant: it completes exactly once, also when the writer thread has
/// died with requests still queued. Otherwise Raft would not stop, but wait for a dead disk without
/// end.
pub(crate) struct FlushCallback {
    /// None: no caller waits. Its failure is noted all the same; otherwise the writes queued behind
    /// it could not report why the writer died.
    pub(super) waiter: Option<FlushWaiter>,
    pub(super) first_error: Arc<FirstError>,
}

pub(super) enum FlushWaiter {
    /// An append of openraft that ended before index `end`.
    Append {
        flushed: IOFlushed<TypeConfig>,
        /// Raised to `end` when the entries below that index are durable. Callbacks complete in
        /// order, so it is never too high.
        durable: Arc<AtomicU64>,
        end: u64,
        /// Start of the append, and the histogram of its duration.
        begun: (Instant, Arc<Histogram>),
    },
    Caller(oneshot::Sender<io::Result<()>>),
}

impl FlushCallback {
    /// Completes a write that a caller waits for.
    pub(crate) fn with_receiver(
        first_error: Arc<FirstError>,
    ) -> (FlushCallback, oneshot::Receiver<io::Result<()>>) {
        let (tx, rx) = oneshot::channel();
        let waiter = Some(FlushWaiter::Caller(tx));
        (
            FlushCallback {
                waiter,
                first_error,
            },
            rx,
        )
    }

    fn complete(&mut self, result: io::Result<()>) {
        let result = result.map_err(|e| self.first_error.get_or_record(e));
        match self.waiter.take() {
            Some(FlushWaiter::Append {
                flushed,
                durable,
                end,
                begun: (at, took),
            }) => {
                if result.is_ok() {
                    took.observe(at.elapsed());
                    durable.store(end, Ordering::Release);
                }
                flushed.io_completed(result);
            }
            // The caller may have gone; no other task needs the result.
            Some(FlushWaiter::Caller(tx)) => drop(tx.send(result)),
            None => {}
        }
    }
}

impl raft_log::Callback for FlushCallback {
    fn send(mut self, result: io::Result<()>) {
        self.complete(result);
    }
}

impl Drop for FlushCallback {
    fn drop(&mut self) {
        if self.waiter.is_none() {
            return;
        }
        self.complete(Err(io::Error::other(
            "the log's writer stopped; the lines above name the cause",
        )));
    }
}
