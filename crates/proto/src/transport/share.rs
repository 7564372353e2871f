//! Memory that one connection holds in its server, so that each connection has its own bound.
//!
//! Invariant: everything that is added here is taken off again when its owner is dropped, so a
//! connection that is gone holds nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// Longest time in which a connection with answers to take takes none.
pub const STUCK_AFTER: Duration = Duration::from_secs(30);

/// One connection's part; calls find it in their extensions.
#[derive(Clone, Debug)]
pub struct Share(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    remote: SocketAddr,
    since: Instant,
    /// Bytes of messages, received and not answered or answered and not taken.
    bytes: AtomicUsize,
    /// Items that wait.
    waiting: AtomicUsize,
    /// Answers not taken yet.
    unsent: AtomicUsize,
    /// When the last answer was taken, or the first became due; milliseconds since `since`.
    moved: AtomicU64,
}

impl Share {
    /// Makes the part of a new connection, which holds nothing yet.
    pub fn new(remote: SocketAddr) -> Share {
        Share(Arc::new(Inner {
            remote,
            since: Instant::now(),
            bytes: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
        }))
    }

    /// Returns the address of the other end.
    pub fn remote(&self) -> SocketAddr {
        self.0.remote
    }

    /// Returns the count of items of this connection's calls that wait.
    pub fn waiting(&self) -> &AtomicUsize {
        &self.0.waiting
    }

    pub(super) fn bytes(&self) -> &AtomicUsize {
        &self.0.bytes
    }

    /// Notes that an answer is ready to be taken, until the returned value is dropped.
    pub fn owe(&self) -> Owed {
        if self.0.unsent.fetch_add(1, Relaxed) == 0 {
            self.0.moved.store(self.now(), Relaxed);
        }
        Owed(self.clone())
    }

    /// Returns whether answers have been ready for [`STUCK_AFTER`] and none was taken.
    pub(super) fn is_stuck(&self) -> bool {
        let still = self.now().saturating_sub(self.0.moved.load(Relaxed));
        self.0.unsent.load(Relaxed) > 0 && Duration::from_millis(still) > STUCK_AFTER
    }

    fn now(&self) -> u64 {
        self.0.since.elapsed().as_millis() as u64
    }
}

/// An answer that is ready and was not taken yet.
#[derive(Debug)]
pub struct Owed(Share);

impl Drop for Owed {
    /// Notes that the answer was taken, or that its call is gone.
    fn drop(&mut self) {
        let Owed(share) = self;
        share.0.unsent.fetch_sub(1, Relaxed);
        share.0.moved.store(share.now(), Relaxed);
    }
}

/// Adds `n` if the sum stays within `most`. Returns whether it did.
pub fn add_within(counter: &AtomicUsize, n: usize, most: usize) -> bool {
    let added = |now: usize| now.checked_add(n).filter(|sum| *sum <= most);
    counter.fetch_update(Relaxed, Relaxed, added).is_ok()
}
