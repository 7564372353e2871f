//! The settings of a client.

use std::path::PathBuf;
use std::time::Duration;

use seqsvr_proto::limits::{CALL_TIMEOUT_DEFAULT, ITEMS_MAX};

/// Settings of a [`Client`](crate::Client).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    pub(crate) servers: Vec<String>,
    pub(crate) deadline: Duration,
    pub(crate) seed: Option<u64>,
    pub(crate) batch_items_max: usize,
    pub(crate) tls_dir: Option<PathBuf>,
}

impl ClientOptions {
    /// Returns the defaults with these AllocSvr addresses, `host:port` (port 7700 if left out). One
    /// that answers is enough to learn the others.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> ClientOptions {
        ClientOptions {
            servers: servers.into_iter().map(Into::into).collect(),
            deadline: CALL_TIMEOUT_DEFAULT,
            seed: None,
            batch_items_max: ITEMS_MAX,
            tls_dir: None,
        }
    }

    /// Sets how long a call tries before it fails. Default: 5 s.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> ClientOptions {
        self.deadline = deadline;
        self
    }

    /// Sets the directory with `ca.pem`, `cert.pem` and `key.pem`, as `seqsvr cert client` makes
    /// it, for a cluster under TLS. Default: no TLS. It is read when the client is created.
    #[must_use]
    pub fn with_tls_dir(mut self, dir: impl Into<PathBuf>) -> ClientOptions {
        self.tls_dir = Some(dir.into());
        self
    }

    /// Sets the seed of jitter and of the choice between equal servers, so that a simulation
    /// repeats. Default: random.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> ClientOptions {
        self.seed = Some(seed);
        self
    }

    /// Sets the maximum items of one frame, for a cluster whose `--batch-items-max` is lower than
    /// the 1,024 of a frame. The client splits a longer batch.
    #[must_use]
    pub fn with_items_max(mut self, batch_items_max: usize) -> ClientOptions {
        self.batch_items_max = batch_items_max;
        self
    }
}
