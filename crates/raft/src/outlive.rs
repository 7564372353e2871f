//! Calls of openraft that run to their end whoever gives up on them.
//!
//! Invariant: no future of openraft's `Raft` is dropped before it is ready. The schedule that
//! breaks without it, with openraft 0.10.0-alpha.37 (`raft_inner.rs`, `join_core_task`): the core
//! stops, for its disk is full; a call that meets this first takes the core's join handle into its
//! own future; its caller goes away, and the handle with it; the next call finds a core that is
//! joined by nobody, panics, and poisons a lock; then shutting down panics as well, before the
//! process has said in its last line that the disk is full.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

/// A call that goes on in a task of its own if this is dropped.
pub(crate) struct Outliving<T: Send + 'static>(Option<BoxFuture<'static, T>>);

/// Lets a call run to its end. It begins when this is first polled, as any future does.
pub(crate) fn outliving<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Outliving<T> {
    Outliving(Some(Box::pin(call)))
}

impl<T: Send + 'static> Future for Outliving<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(call) = &mut self.0 else {
            return Poll::Pending;
        };
        let answer = call.as_mut().poll(cx);
        if answer.is_ready() {
            self.0 = None;
        }
        answer
    }
}

impl<T: Send + 'static> Drop for Outliving<T> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and nobody calls any more.
        if let (Some(call), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(call);
        }
    }
}
