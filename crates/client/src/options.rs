//! The settings of a client, and the options of a call.

use std::time::Duration;

use seqsvr_proto::limits::{CALL_TIMEOUT_DEFAULT, ITEMS_MAX};

/// Plain settings of a [`Client`](crate::Client).
#[derive(Clone, Debug)]
pub struct Options {
    /// AllocSvr addresses, `host:port` (port 7700 if left out); one that answers is enough to learn
    /// the others.
    pub servers: Vec<String>,
    /// How long a call keeps trying, 5 s unless configured.
    pub deadline: Duration,
    /// Seed of jitter and of the choice between equal servers, so that a simulation repeats; None:
    /// random.
    pub seed: Option<u64>,
    /// Most items of one frame, if less than the 1,024 of a frame; a longer batch is split. For a
    /// cluster whose `--items-max` is lower.
    pub items_max: usize,
}

impl Options {
    /// Returns the defaults with these servers.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Options {
        Options {
            servers: servers.into_iter().map(Into::into).collect(),
            deadline: CALL_TIMEOUT_DEFAULT,
            seed: None,
            items_max: ITEMS_MAX,
        }
    }
}

/// Options of a call that takes numbers.
#[derive(Clone, Debug)]
pub struct NextOptions {
    /// Empty: `default` for a uid, `keys` for a key.
    pub namespace: String,
    /// Numbers to take, 1 to 100,000.
    pub count: u32,
    /// Last number of this sequence that the caller has seen: the answer is greater, or an error.
    pub floor: Option<u64>,
}

impl Default for NextOptions {
    fn default() -> NextOptions {
        NextOptions {
            namespace: String::new(),
            count: 1,
            floor: None,
        }
    }
}
