//! The state that all connections of a door share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use hashbrown::HashMap;
use parking_lot::RwLock;
use seqsvr_proto::transport::add_within;
use tokio::time::Instant;

use super::session::REDIS_VERSION;

/// Most bytes of requests and answers that all connections hold beyond their first [`FREE`] each.
const HELD_MAX: usize = 256 << 20;
/// Bytes that a connection may hold without being counted.
pub(super) const FREE: usize = 64 << 10;

/// The state of one door.
pub(super) struct About {
    pub(super) password: Option<String>,
    since: Instant,
    ids: AtomicU64,
    held: AtomicUsize,
    stopping: AtomicBool,
    /// Strides of namespaces, whose number is bounded.
    strides: RwLock<HashMap<String, u64>>,
}

impl About {
    pub(super) fn new(password: Option<String>) -> About {
        About {
            password,
            since: Instant::now(),
            ids: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            strides: RwLock::default(),
        }
    }

    /// Closes the door: every connection ends after the requests that it has received.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Returns the stride of a namespace, if it is cached here.
    pub(super) fn stride(&self, namespace: &str) -> Option<u64> {
        self.strides.read().get(namespace).copied()
    }

    pub(super) fn know(&self, strides: impl Iterator<Item = (String, u64)>) {
        self.strides.write().extend(strides);
    }

    /// Returns the bytes that all connections hold beyond their free ones.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Returns the id of the next connection.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Relaxed) + 1
    }

    /// Returns the answer to INFO.
    pub(super) fn info(&self) -> String {
        let uptime = self.since.elapsed().as_secs();
        format!(
            "# Server\r\nredis_version:{REDIS_VERSION}\r\nserver_name:seqsvr\r\nseqsvr_version:{}\r\nredis_mode:standalone\r\nprocess_id:{}\r\nuptime_in_seconds:{uptime}\r\n\r\n# Persistence\r\nloading:0\r\naof_enabled:1\r\n\r\n# Stats\r\ntotal_connections_received:{}\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            self.ids.load(Relaxed)
        )
    }
}

/// The bytes that a connection holds beyond its free ones.
pub(super) struct Held<'a> {
    about: &'a About,
    bytes: usize,
}

impl<'a> Held<'a> {
    pub(super) fn new(about: &'a About) -> Held<'a> {
        Held { about, bytes: 0 }
    }

    /// Sets the bytes held in all to so many. False: there is no room for them, and nothing has
    /// changed.
    pub(super) fn is(&mut self, bytes: usize) -> bool {
        let beyond = bytes.saturating_sub(FREE);
        if beyond > self.bytes {
            if !add_within(&self.about.held, beyond - self.bytes, HELD_MAX) {
                return false;
            }
        } else if beyond < self.bytes {
            self.about.held.fetch_sub(self.bytes - beyond, Relaxed);
        }
        self.bytes = beyond;
        true
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.is(0);
    }
}
