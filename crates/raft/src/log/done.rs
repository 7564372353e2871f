//! Callbacks that the log's writer thread calls once a write is durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use openraft::storage::IOFlushed;
use seqsvr_metrics::Histogram;
use tokio::sync::oneshot;

use super::fault::Fault;
use crate::types::TypeConfig;

/// Completion of one write. Invariant: it completes exactly once, also when the writer thread has
/// died with requests still queued. Otherwise Raft would not stop, but wait for a dead disk without
/// end.
pub(crate) struct Done {
    waiter: Option<Waiter>,
    fault: Arc<Fault>,
}

enum Waiter {
    Raft {
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

impl Done {
    /// Completes an append of openraft that ended before index `end`.
    pub(crate) fn raft(
        flushed: IOFlushed<TypeConfig>,
        durable: Arc<AtomicU64>,
        end: u64,
        begun: (Instant, Arc<Histogram>),
        fault: Arc<Fault>,
    ) -> Done {
        let waiter = Waiter::Raft {
            flushed,
            durable,
            end,
            begun,
        };
        Done {
            waiter: Some(waiter),
            fault,
        }
    }

    /// Completes a write that a caller waits for.
    pub(crate) fn caller(fault: Arc<Fault>) -> (Done, oneshot::Receiver<io::Result<()>>) {
        let (tx, rx) = oneshot::channel();
        let waiter = Some(Waiter::Caller(tx));
        (Done { waiter, fault }, rx)
    }

    /// Completes a write that no caller waits for. Its failure is noted; otherwise the writes
    /// queued behind it could not report why the writer died.
    pub(crate) fn nobody(fault: Arc<Fault>) -> Done {
        let waiter = None;
        Done { waiter, fault }
    }

    fn complete(&mut self, result: io::Result<()>) {
        let result = result.map_err(|e| self.fault.of(e));
        match self.waiter.take() {
            Some(Waiter::Raft {
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
            Some(Waiter::Caller(tx)) => drop(tx.send(result)),
            None => {}
        }
    }
}

impl raft_log::Callback for Done {
    fn send(mut self, result: io::Result<()>) {
        self.complete(result);
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if self.waiter.is_none() {
            return;
        }
        self.complete(Err(io::Error::other(
            "the log's writer stopped, the lines above say why",
        )));
    }
}
