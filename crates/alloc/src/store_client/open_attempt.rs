//! An attempt that ends without an answer because its caller went away.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum time without an answer after which an attempt whose caller went away counts as failed. A
/// leader answers sooner, so callers that go away at once do not change the preferred store.
pub(super) const ABANDONED_ATTEMPT_MIN: Duration = Duration::from_millis(200);

/// Attempt at a store that has not ended.
///
/// Schedule that it is for: a store accepts connections and does not answer, and each caller of a
/// relayed call goes away before the attempt times out. Each next call would go to the same store.
pub(super) struct OpenAttempt<F: FnMut()> {
    /// Called if the caller went away without an answer.
    on_abandon: F,
    begin: Instant,
    has_ended: bool,
}

impl<F: FnMut()> OpenAttempt<F> {
    /// Begins an attempt now.
    pub(super) fn begin(on_abandon: F) -> OpenAttempt<F> {
        OpenAttempt {
            on_abandon,
            begin: Instant::now(),
            has_ended: false,
        }
    }

    /// Ends the attempt: the store answered, or the time for it is over.
    pub(super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl<F: FnMut()> Drop for OpenAttempt<F> {
    fn drop(&mut self) {
        if !self.has_ended && self.begin.elapsed() >= ABANDONED_ATTEMPT_MIN {
            (self.on_abandon)();
        }
    }
}
