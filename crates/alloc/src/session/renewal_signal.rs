//! The signal between callers that need a newer routing table or lease and the lease keeper.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Counts renewals, so that callers can wait for one that starts after their request.
#[derive(Default)]
pub(crate) struct RenewalSignal {
    requested: tokio::sync::Notify,
    /// Number of renewals started, and the number of the last one that succeeded.
    counts: watch::Sender<(u64, u64)>,
    /// Lease D as the store last reported it; 0 before that.
    lease_ms: AtomicU64,
}

impl RenewalSignal {
    /// Returns the lease D in milliseconds; 0 before it is known.
    pub(crate) fn lease_ms(&self) -> u64 {
        self.lease_ms.load(Relaxed)
    }

    /// Requests a renewal out of turn, which brings the newest table.
    pub(crate) fn request_renewal(&self) {
        self.requested.notify_one();
    }

    /// Requests a renewal, and waits (at most a second) for one that started after now and
    /// succeeded. Its table is newer than any that the caller can have seen. Returns false if there
    /// was none.
    pub(crate) async fn renew_and_wait(&self, deadline: Instant) -> bool {
        let mut counts = self.counts.subscribe();
        let wanted = counts.borrow().0 + 1;
        self.request_renewal();
        let until = deadline.min(Instant::now() + Duration::from_secs(1));
        let renewed = timeout_at(until, counts.wait_for(|c| c.1 >= wanted)).await;
        matches!(renewed, Ok(Ok(_)))
    }

    /// Waits until a renewal is requested out of turn.
    pub(crate) async fn wait_for_request(&self) {
        self.requested.notified().await;
    }

    /// Counts a renewal that starts.
    pub(crate) fn record_start(&self) {
        self.counts.send_modify(|c| c.0 += 1);
    }

    /// Counts the renewal that started last as successful.
    pub(crate) fn record_success(&self) {
        self.counts.send_modify(|c| c.1 = c.0);
    }

    /// Stores the lease D that the store granted.
    pub(crate) fn set_lease(&self, lease: Duration) {
        self.lease_ms.store(lease.as_millis() as u64, Relaxed);
    }
}
