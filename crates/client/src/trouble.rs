//! What calls are waiting for, in words, for a person who watches the client.
//!
//! Invariant: the text is gone once no call is in trouble, also when calls are dropped half-way.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// State that all calls of a client share.
#[derive(Clone)]
pub(crate) struct Trouble {
    text: Arc<watch::Sender<Option<String>>>,
    waiting: Arc<Mutex<usize>>,
}

/// Guard that a call in trouble holds.
pub(crate) struct Waiting(Trouble);

impl Trouble {
    pub(crate) fn new() -> Trouble {
        Trouble {
            text: Arc::new(watch::Sender::new(None)),
            waiting: Arc::default(),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<String>> {
        self.text.subscribe()
    }

    /// Begins to wait.
    pub(crate) fn begin(&self) -> Waiting {
        *self.waiting.lock() += 1;
        Waiting(self.clone())
    }
}

impl Waiting {
    /// Sets the text that says what the call waits for.
    pub(crate) fn tell(&self, text: &str) {
        self.0.text.send_if_modified(|now| {
            let news = now.as_deref() != Some(text);
            if news {
                *now = Some(text.to_owned());
            }
            news
        });
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        *waiting -= 1;
        if *waiting == 0 {
            self.0.text.send_if_modified(|now| now.take().is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleared_by_the_last() {
        let trouble = Trouble::new();
        let seen = trouble.subscribe();
        let (a, b) = (trouble.begin(), trouble.begin());
        a.tell("slot 17 has no owner yet");
        drop(a);
        assert_eq!(seen.borrow().as_deref(), Some("slot 17 has no owner yet"));
        drop(b);
        assert_eq!(*seen.borrow(), None);
    }
}
