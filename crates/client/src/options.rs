//! What a client is started with, and what a call may choose.

use std::time::Duration;

use seqsvr_proto::limits::{DEADLINE_DEFAULT, ITEMS_MAX};

use crate::key::Key;

/// Plain settings of a [`Client`](crate::Client).
#[derive(Clone, Debug)]
pub struct Options {
    /// AllocSvr addresses, `host:port` (port 7700 if left out); one that answers is enough to learn
    /// the rest.
    pub servers: Vec<String>,
    /// How long a call keeps trying, 5 s unless told otherwise.
    pub deadline: Duration,
    /// Seed of jitter and of the choice between equal servers, so that a simulation repeats; None:
    /// random.
    pub seed: Option<u64>,
    /// Most items of one frame, if less than the 1,024 of a frame; a longer batch is split. For a
    /// cluster whose `--items-max` is lower.
    pub items_max: usize,
}

impl Options {
    /// These servers, and defaults for the rest.
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Options {
        Options {
            servers: servers.into_iter().map(Into::into).collect(),
            deadline: DEADLINE_DEFAULT,
            seed: None,
            items_max: ITEMS_MAX,
        }
    }
}

/// How to take numbers.
#[derive(Clone, Debug)]
pub struct NextOptions {
    /// Empty: `default` for a uid, `keys` for a key.
    pub namespace: String,
    /// How many, 1 to 100,000.
    pub count: u32,
    /// Last number of this sequence the caller has seen: the answer is greater, or an error.
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

/// One item of [`Client::next_many`](crate::Client::next_many).
#[derive(Clone, Debug)]
pub struct NextItem {
    /// Whose numbers.
    pub key: Key,
    /// How many, 1 to 100,000.
    pub count: u32,
    /// Last number of this sequence the caller has seen.
    pub floor: Option<u64>,
}

impl NextItem {
    /// One number of a key.
    pub fn new(key: impl Into<Key>) -> NextItem {
        NextItem {
            key: key.into(),
            count: 1,
            floor: None,
        }
    }
}
