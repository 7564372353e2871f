//! The state that all connections of a Redis server share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_net::ByteBudget;
use tokio::time::Instant;

use crate::wrong_secrets::WrongSecretLog;

/// Maximum bytes of requests and replies that all connections hold beyond their first
/// [`UNCOUNTED_BYTES`] each. The server rejects requests above it.
const RESERVED_BYTES_MAX: usize = 256 << 20;
/// Bytes that a connection may hold without being counted.
pub(super) const UNCOUNTED_BYTES: usize = 64 << 10;

/// The reply to a command for which the server has no room.
pub(super) const TOO_MANY_BYTES: &str = "TRYAGAIN this server holds too many bytes of requests and answers; read the answers, or retry later";

/// The state that all connections of one Redis server share.
pub(super) struct RedisShared {
    pub(super) wrong_tokens: WrongSecretLog,
    started_at: Instant,
    /// Maximum connections at a time.
    pub(super) connections_max: usize,
    /// Port on which the server listens.
    pub(super) port: u16,
    last_connection_id: AtomicU64,
    /// Connections that have ended.
    closed_connections: AtomicU64,
    /// Bytes that all connections hold beyond their first [`UNCOUNTED_BYTES`] each.
    pub(super) buffers: ByteBudget,
    shutting_down: AtomicBool,
}

impl RedisShared {
    pub(super) fn new(connections_max: usize, port: u16) -> RedisShared {
        RedisShared {
            wrong_tokens: WrongSecretLog::new("Redis token"),
            started_at: Instant::now(),
            connections_max,
            port,
            last_connection_id: AtomicU64::new(0),
            closed_connections: AtomicU64::new(0),
            buffers: ByteBudget::new(RESERVED_BYTES_MAX),
            shutting_down: AtomicBool::new(false),
        }
    }

    /// Makes every connection end after the requests that it has received.
    pub(super) fn begin_shutdown(&self) {
        self.shutting_down.store(true, Relaxed);
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down.load(Relaxed)
    }

    /// Counts a connection that begins; returns its id.
    pub(super) fn open_connection(&self) -> u64 {
        self.last_connection_id.fetch_add(1, Relaxed) + 1
    }

    /// Counts a connection that ends.
    pub(super) fn close_connection(&self) {
        self.closed_connections.fetch_add(1, Relaxed);
    }

    /// Returns the number of connections that are open.
    pub(super) fn connections_open(&self) -> u64 {
        // The ends first: a connection that ends between the two reads counts as open.
        let closed = self.closed_connections.load(Relaxed);
        self.connections_total().saturating_sub(closed)
    }

    /// Returns the time since the server was started.
    pub(super) fn uptime(&self) -> Duration {
        self.started_at.elapsed()
    }

    /// Returns the number of connections since the server was started.
    pub(super) fn connections_total(&self) -> u64 {
        self.last_connection_id.load(Relaxed)
    }
}

/// The counted bytes of one connection: those that it holds beyond [`UNCOUNTED_BYTES`].
pub(super) struct BufferReservation<'a> {
    pub(super) buffers: &'a ByteBudget,
    pub(super) counted_bytes: usize,
}

impl BufferReservation<'_> {
    /// Sets the bytes that the connection holds to `bytes`. False: the total would be above
    /// [`RESERVED_BYTES_MAX`], and nothing has changed.
    pub(super) fn try_resize(&mut self, bytes: usize) -> bool {
        let counted = bytes.saturating_sub(UNCOUNTED_BYTES);
        self.buffers.try_resize(&mut self.counted_bytes, counted)
    }
}

impl Drop for BufferReservation<'_> {
    fn drop(&mut self) {
        self.try_resize(0);
    }
}
