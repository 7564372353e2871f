//! What calls are waiting for, in words, for an operator who watches the client.
//!
//! Invariant: the text is cleared once no call waits, also when calls are dropped half-way.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Text that all calls of a client share.
#[derive(Clone)]
pub(crate) struct WaitStatus {
    text: Arc<watch::Sender<Option<String>>>,
    waiting_calls: Arc<Mutex<usize>>,
}

/// Guard that a waiting call holds.
pub(crate) struct WaitToken(WaitStatus);

impl WaitStatus {
    pub(crate) fn new() -> WaitStatus {
        WaitStatus {
            text: Arc::new(watch::Sender::new(None)),
            waiting_calls: Arc::default(),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.text.subscribe()
    }

    /// Registers a waiting call.
    pub(crate) fn begin_wait(&self) -> WaitToken {
        *self.waiting_calls.lock() += 1;
        WaitToken(self.clone())
    }
}

impl WaitToken {
    /// Sets the text that says what the call waits for.
    pub(crate) fn set_reason(&self, text: &str) {
        self.0.text.send_if_modified(|now| {
            let is_new = now.as_deref() != Some(text);
            if is_new {
                *now = Some(text.to_owned());
            }
            is_new
        });
    }
}

impl Drop for WaitToken {
    fn drop(&mut self) {
        let mut waiting_calls = self.0.waiting_calls.lock();
        *waiting_calls -= 1;
        if *waiting_calls == 0 {
            self.0.text.send_if_modified(|now| now.take().is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_reason_is_cleared_when_last_call_ends() {
        let wait_status = WaitStatus::new();
        let seen = wait_status.subscribe();
        let (first, last) = (wait_status.begin_wait(), wait_status.begin_wait());
        first.set_reason("slot 17 has no owner yet");
        drop(first);
        assert_eq!(seen.borrow().as_deref(), Some("slot 17 has no owner yet"));
        drop(last);
        assert_eq!(*seen.borrow(), None);
    }
}
