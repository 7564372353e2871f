//! Limits the items that wait in an AllocSvr: for a section to be opened, a window, a store, an
//! owner.
//!
//! Invariant: a call acquires a permit for each of its items before the first of them waits, and
//! releases them when it ends in any way. There are never more than `capacity` permits acquired,
//! and not more than a quarter of them by one connection, so that others find some. A call that
//! gets none is rejected at once with a retry hint. An item served from memory needs no permit, so
//! it is not rejected when all are in use.
//!
//! All items of a call count, not only those that wait, because the call keeps all of them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use seqsvr_net::{ConnectionQuota, add_within};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

use crate::metrics::counters::EventCounter;

/// One connection may acquire this part of the permits: one in so many. Above it its calls are
/// rejected.
const CONNECTION_SHARE_DIVISOR: usize = 4;
/// Retry hint of an item that got no permit.
pub(crate) const RETRY_AFTER_MS: u32 = 100;

/// Limiter of items that wait.
#[derive(Debug)]
pub(crate) struct WaitLimiter {
    capacity: usize,
    permits_taken: AtomicUsize,
}

impl WaitLimiter {
    pub(crate) fn new(capacity: usize) -> WaitLimiter {
        WaitLimiter {
            capacity,
            permits_taken: AtomicUsize::new(0),
        }
    }

    /// Returns the number of acquired permits.
    pub(crate) fn permits_taken(&self) -> usize {
        self.permits_taken.load(Relaxed)
    }

    /// Returns the permits of a call of `items` items, which are not acquired yet.
    pub(crate) fn permits_for<'a>(
        &'a self,
        share: Option<&'a ConnectionQuota>,
        items: usize,
    ) -> WaitPermits<'a> {
        WaitPermits {
            limiter: self,
            share,
            items,
            is_acquired: false,
        }
    }
}

/// Permits of one call; a drop releases them.
pub(crate) struct WaitPermits<'a> {
    limiter: &'a WaitLimiter,
    share: Option<&'a ConnectionQuota>,
    items: usize,
    is_acquired: bool,
}

impl WaitPermits<'_> {
    /// Acquires the call's permits unless it has them. The error is for the items that would have
    /// to wait.
    pub(crate) fn acquire(&mut self, rejections: &EventCounter) -> Result<(), RpcError> {
        if self.is_acquired {
            return Ok(());
        }
        let capacity = self.limiter.capacity;
        // A full batch always fits alone, or it would never be served.
        let connection_capacity = (capacity / CONNECTION_SHARE_DIVISOR)
            .max(self.items)
            .min(capacity);
        let is_connection_full = self.share.is_some_and(|share| {
            !add_within(share.queued_items(), self.items, connection_capacity)
        });
        let text = if is_connection_full {
            format!(
                "too many items of this connection wait: one connection may have {connection_capacity} of {capacity} (--queued-items-max); retry later"
            )
        } else if !add_within(&self.limiter.permits_taken, self.items, capacity) {
            if let Some(share) = self.share {
                share.queued_items().fetch_sub(self.items, Relaxed);
            }
            format!(
                "too many items wait in this AllocSvr: {capacity} (--queued-items-max); retry later"
            )
        } else {
            self.is_acquired = true;
            return Ok(());
        };
        rejections.add(1);
        Err(RpcError::new(Reason::Overloaded, text).with_retry_after_ms(RETRY_AFTER_MS))
    }
}

impl Drop for WaitPermits<'_> {
    fn drop(&mut self) {
        if self.is_acquired {
            self.limiter.permits_taken.fetch_sub(self.items, Relaxed);
            if let Some(share) = self.share {
                share.queued_items().fetch_sub(self.items, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_permits_are_bounded_and_released() {
        let limiter = WaitLimiter::new(10);
        let rejections = EventCounter::default();
        let mut six = limiter.permits_for(None, 6);
        six.acquire(&rejections).unwrap();
        six.acquire(&rejections).unwrap();
        assert_eq!(limiter.permits_taken(), 6);
        let mut five = limiter.permits_for(None, 5);
        let fault = five.acquire(&rejections).unwrap_err();
        assert_eq!(
            (fault.code, fault.reason()),
            (tonic::Code::ResourceExhausted, Reason::Overloaded)
        );
        assert!(fault.detail.retry_after_ms > 0);
        assert_eq!((limiter.permits_taken(), rejections.get()), (6, 1));
        drop(six);
        five.acquire(&rejections).unwrap();
        drop(five);
        assert_eq!(limiter.permits_taken(), 0);
    }
}
