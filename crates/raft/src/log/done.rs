//! What the log's writer thread calls once a write is durable.

use std::io;

use openraft::storage::IOFlushed;
use tokio::sync::oneshot;

use crate::types::TypeConfig;

/// Completion of one write. Invariant: it completes exactly once, also when the writer thread has
/// died with requests still queued; without that Raft would wait for ever on a dead disk instead of
/// stopping.
pub(crate) struct Done(Option<Waiter>);

enum Waiter {
    Raft(IOFlushed<TypeConfig>),
    Caller(oneshot::Sender<io::Result<()>>),
}

impl Done {
    /// Completes an append of openraft.
    pub(crate) fn raft(flushed: IOFlushed<TypeConfig>) -> Done {
        Done(Some(Waiter::Raft(flushed)))
    }

    /// Completes a write somebody waits for.
    pub(crate) fn caller() -> (Done, oneshot::Receiver<io::Result<()>>) {
        let (tx, rx) = oneshot::channel();
        (Done(Some(Waiter::Caller(tx))), rx)
    }

    fn complete(&mut self, result: io::Result<()>) {
        match self.0.take() {
            Some(Waiter::Raft(flushed)) => flushed.io_completed(result),
            // The caller may have gone; nobody else needs to know.
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
        self.complete(Err(io::Error::other(
            "the log's writer stopped after an earlier error",
        )));
    }
}
