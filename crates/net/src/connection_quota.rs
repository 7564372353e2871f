//! Memory that one connection holds in its server, so that each connection has its own bound.
//!
//! Invariant: everything that is added here is taken off again when its owner is dropped, so a
//! connection that is gone holds nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;
use tonic::Extensions;

use crate::byte_budget::ByteBudget;
use crate::peer::{ConnectionCaller, ConnectionPeer};

/// Returns who makes a call.
pub fn caller_of(extensions: &Extensions) -> ConnectionCaller<'_> {
    let quota = extensions.get::<ConnectionQuota>();
    quota.map_or(ConnectionCaller::Unknown, ConnectionQuota::caller)
}

/// Most bytes of messages one connection holds in the server.
pub const CONNECTION_BUFFERED_BYTES_MAX: usize = 64 << 20;
/// Longest time in which a connection with answers to take takes none.
pub const WRITE_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// One connection's part; calls find it in their extensions.
#[derive(Clone, Debug)]
pub struct ConnectionQuota(Arc<QuotaCounters>);

#[derive(Debug)]
struct QuotaCounters {
    peer: ConnectionPeer,
    opened_at: Instant,
    /// Bytes of messages, received and not answered or answered and not taken.
    buffered: ByteBudget,
    /// Items that wait.
    queued_items: AtomicUsize,
    /// Streams of standard services.
    standard_streams: AtomicUsize,
    /// Answers not taken yet.
    unsent_responses: AtomicUsize,
    /// When the last answer was taken, or the first became due; milliseconds since `opened_at`.
    progress_ms: AtomicU64,
}

impl ConnectionQuota {
    /// Makes the part of a new connection, which holds nothing yet.
    pub fn new(peer: ConnectionPeer) -> ConnectionQuota {
        ConnectionQuota(Arc::new(QuotaCounters {
            peer,
            opened_at: Instant::now(),
            buffered: ByteBudget::new(CONNECTION_BUFFERED_BYTES_MAX),
            queued_items: AtomicUsize::new(0),
            standard_streams: AtomicUsize::new(0),
            unsent_responses: AtomicUsize::new(0),
            progress_ms: AtomicU64::new(0),
        }))
    }

    /// Returns the address of the other end.
    pub fn remote(&self) -> SocketAddr {
        self.0.peer.remote()
    }

    /// Returns the other end.
    pub(crate) fn peer(&self) -> &ConnectionPeer {
        &self.0.peer
    }

    /// Returns who is at the other end.
    pub fn caller(&self) -> ConnectionCaller<'_> {
        self.0.peer.caller()
    }

    /// Returns the count of items of this connection's calls that wait.
    pub fn queued_items(&self) -> &AtomicUsize {
        &self.0.queued_items
    }

    pub(crate) fn standard_streams(&self) -> &AtomicUsize {
        &self.0.standard_streams
    }

    pub(crate) fn buffered(&self) -> &ByteBudget {
        &self.0.buffered
    }

    /// Notes that an answer is ready to be taken, until the returned value is dropped.
    pub fn begin_response(&self) -> UnsentResponse {
        if self.0.unsent_responses.fetch_add(1, Relaxed) == 0 {
            self.0.progress_ms.store(self.age_ms(), Relaxed);
        }
        UnsentResponse(self.clone())
    }

    /// Returns whether answers have been ready for [`WRITE_STALL_TIMEOUT`] and none was taken.
    pub(crate) fn is_stuck(&self) -> bool {
        let still = self
            .age_ms()
            .saturating_sub(self.0.progress_ms.load(Relaxed));
        self.0.unsent_responses.load(Relaxed) > 0
            && Duration::from_millis(still) > WRITE_STALL_TIMEOUT
    }

    fn age_ms(&self) -> u64 {
        self.0.opened_at.elapsed().as_millis() as u64
    }
}

/// An answer that is ready and was not taken yet.
#[derive(Debug)]
pub struct UnsentResponse(ConnectionQuota);

impl Drop for UnsentResponse {
    /// Notes that the answer was taken, or that its call is gone.
    fn drop(&mut self) {
        let UnsentResponse(quota) = self;
        quota.0.unsent_responses.fetch_sub(1, Relaxed);
        quota.0.progress_ms.store(quota.age_ms(), Relaxed);
    }
}
