//! An attempt that ends without an answer because its caller went away.

use std::time::Duration;

use tokio::time::Instant;

use crate::store_client::store_group::StoreGroupClient;

/// Minimum time without an answer after which an attempt whose caller went away counts as failed. A
/// leader answers sooner, so callers that go away at once do not change the preferred store.
pub(super) const ABANDONED_ATTEMPT_MIN: Duration = Duration::from_millis(200);

/// Attempt at a store that has not ended.
///
/// Schedule that it is for: a store accepts connections and does not answer, and each caller of a
/// relayed call goes away before the attempt times out. Each next call would go to the same store.
pub(super) struct OpenAttempt<'a> {
    stores: &'a StoreGroupClient,
    address: &'a str,
    begin: Instant,
    has_ended: bool,
}

impl<'a> OpenAttempt<'a> {
    /// Begins an attempt now.
    pub(super) fn begin(stores: &'a StoreGroupClient, address: &'a str) -> OpenAttempt<'a> {
        OpenAttempt {
            stores,
            address,
            begin: Instant::now(),
            has_ended: false,
        }
    }

    /// Ends the attempt: the store answered, or the time for it is over.
    pub(super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for OpenAttempt<'_> {
    fn drop(&mut self) {
        if !self.has_ended && self.begin.elapsed() >= ABANDONED_ATTEMPT_MIN {
            self.stores.prefer_next(self.address, "");
        }
    }
}
