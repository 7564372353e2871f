//! Calls of openraft that run to their end even if the caller gives up.
//!
//! Invariant: no future of openraft's `Raft` is dropped before it is ready. Schedule that breaks
//! it, with openraft 0.10.0-alpha.37 (`openraft:raft_inner.rs`, `join_core_task`): the core stops
//! because its disk is full. The first call that meets this takes the core's join handle into its
//! own future. Its caller goes away, and the handle is dropped with it. The next call finds a core
//! that no task joins, panics, and poisons a lock. Then shutting down panics as well, before the
//! process has said in its last line that the disk is full.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tokio::runtime::Handle;

/// A call that continues in a task of its own if this is dropped.
pub(crate) struct DetachOnDrop<T: Send + 'static>(Option<BoxFuture<'static, T>>);

/// Lets a call run to its end. It begins when this is first polled, as any future does.
pub(crate) fn detach_on_drop<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> DetachOnDrop<T> {
    DetachOnDrop(Some(Box::pin(call)))
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
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

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and no caller is left.
        if let (Some(call), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(call);
        }
    }
}
