//! The bound of what waits in an AllocSvr: for a section to be opened, a window, a store, an owner.
//!
//! Invariant: a call takes a place for each of its items before the first of them waits, and gives
//! them back when it ends, however it ends; there are never more than `most` places taken, and not
//! more than a quarter of them by one connection, so that others find some. Whoever gets none is
//! told at once when to come again. An item served from memory needs no place, so a full house
//! refuses none of those.
//!
//! All items of a call count, not only those that wait, because the call keeps all of them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use seqsvr_proto::error::Fault;
use seqsvr_proto::transport::{Share, add_within};
use seqsvr_proto::v1::Reason;

use crate::counters::EventCounter;

/// Part of the places that one connection may take: one in so many.
const SHARE: usize = 4;
/// When an item that got no place may come again.
pub(crate) const RETRY_MS: u32 = 100;

/// Places for items that wait.
#[derive(Debug)]
pub(crate) struct WaitLimiter {
    most: usize,
    taken: AtomicUsize,
}

impl WaitLimiter {
    pub(crate) fn new(most: usize) -> WaitLimiter {
        WaitLimiter {
            most,
            taken: AtomicUsize::new(0),
        }
    }

    /// Places taken now.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// For a call of so many items, which takes none yet.
    pub(crate) fn places<'a>(&'a self, share: Option<&'a Share>, items: usize) -> WaitPermits<'a> {
        WaitPermits {
            waiting: self,
            share,
            items,
            taken: false,
        }
    }
}

/// The places of one call.
pub(crate) struct WaitPermits<'a> {
    waiting: &'a WaitLimiter,
    share: Option<&'a Share>,
    items: usize,
    taken: bool,
}

impl WaitPermits<'_> {
    /// Takes the call's places unless it has them. The error tells those that would have to wait.
    pub(crate) fn take(&mut self, refused: &EventCounter) -> Result<(), Fault> {
        if self.taken {
            return Ok(());
        }
        let most = self.waiting.most;
        // A full batch always fits alone, or it would never be served.
        let of_one = (most / SHARE).max(self.items).min(most);
        let of_one_too_many = self
            .share
            .is_some_and(|share| !add_within(share.waiting(), self.items, of_one));
        let text = if of_one_too_many {
            format!(
                "too many items of this connection wait: one connection may have {of_one} of {most} (--waiting-max); retry later"
            )
        } else if !add_within(&self.waiting.taken, self.items, most) {
            if let Some(share) = self.share {
                share.waiting().fetch_sub(self.items, Relaxed);
            }
            format!("too many items wait in this AllocSvr: {most} (--waiting-max); retry later")
        } else {
            self.taken = true;
            return Ok(());
        };
        refused.add(1);
        Err(Fault::new(Reason::TooMany, text).with_retry_after_ms(RETRY_MS))
    }
}

impl Drop for WaitPermits<'_> {
    fn drop(&mut self) {
        if self.taken {
            self.waiting.taken.fetch_sub(self.items, Relaxed);
            if let Some(share) = self.share {
                share.waiting().fetch_sub(self.items, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_given_back() {
        let waiting = WaitLimiter::new(10);
        let refused = EventCounter::default();
        let mut six = waiting.places(None, 6);
        six.take(&refused).unwrap();
        six.take(&refused).unwrap();
        assert_eq!(waiting.taken(), 6);
        let mut five = waiting.places(None, 5);
        let fault = five.take(&refused).unwrap_err();
        assert_eq!(
            (fault.code, fault.reason()),
            (tonic::Code::ResourceExhausted, Reason::TooMany)
        );
        assert!(fault.detail.retry_after_ms > 0);
        assert_eq!((waiting.taken(), refused.get()), (6, 1));
        drop(six);
        five.take(&refused).unwrap();
        drop(five);
        assert_eq!(waiting.taken(), 0);
    }
}
