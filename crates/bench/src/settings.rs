//! Settings of a run.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_net::ChannelPool;

/// Default number of items of a NextMany or a frame.
const DEFAULT_BATCH: u32 = 100;

/// Kind of the calls of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CallMode {
    /// Take the next number or numbers of one key.
    Next,
    /// Take the next numbers of many keys.
    NextMany,
    /// Take the next numbers of many keys, each call as one frame of a Pipe, without the SDK.
    Pipe,
    /// Read the last issued number.
    Current,
    /// Take ids of a family.
    Ids,
}

/// Distribution of the calls over the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyDistribution {
    /// All keys have the same share of the calls.
    Uniform,
    /// A few keys have most of the calls (Zipf's law, exponent 0.99).
    Zipf,
    /// One key has all calls.
    Hot,
}

/// Settings of a run, as the command line has them.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    /// Kind of the calls.
    pub mode: CallMode,
    /// Whether each call is one unary gRPC request without the SDK.
    pub unary: bool,
    /// AllocSvr addresses, for calls without the SDK.
    pub servers: Vec<String>,
    /// Network of calls without the SDK; each connection has a pool of its own.
    pub channels: ChannelPool,
    /// Deadline of a call without the SDK.
    pub timeout: Duration,
    /// Calls in flight, over all connections.
    pub in_flight: u32,
    /// Number of uids or keys in each namespace.
    pub keys: u32,
    /// Length of the keys; None: uids.
    pub key_bytes: Option<u32>,
    /// Distribution of the calls over the keys.
    pub distribution: KeyDistribution,
    /// Namespaces, with as many calls each; none: one of the bench's own, `bench` or `bench-keys`,
    /// so that a run takes no numbers of others.
    pub namespaces: Vec<String>,
    /// Family of ids; None: `snowflake`, and no other mode has one.
    pub family: Option<String>,
    /// Items in a call; None: the default of the mode.
    pub batch: Option<u32>,
    /// Numbers that each item takes.
    pub count: u32,
    /// Measured time, after the warm-up.
    pub duration: Duration,
    /// Time before the measurement.
    pub warm_up: Duration,
    /// Calls that start per second; None: each call follows the last answer.
    pub rate: Option<u32>,
    /// File in which every call is recorded.
    pub history: Option<PathBuf>,
}

/// Settings that contradict each other or the cluster.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(pub(crate) String);

impl BenchSettings {
    /// Returns the number of items of a call.
    pub(crate) fn batch_size(&self) -> Result<u32, InvalidSettings> {
        match (self.mode, self.batch) {
            (CallMode::Next, Some(n)) if n > 1 => Err(InvalidSettings(
                "--batch is for --mode next-many, pipe or current; --count takes several numbers of one key"
                    .into(),
            )),
            (mode, _) if mode != CallMode::Ids && self.family.is_some() => {
                Err(InvalidSettings("--family is for --mode ids; --namespace names what other modes take numbers of".into()))
            }
            (CallMode::Ids, _) if self.unary || self.rejects_ids() => Err(InvalidSettings(
                "--mode ids takes ids of --family, --batch in a call; it has no keys and no numbers of an item".into(),
            )),
            (CallMode::NextMany | CallMode::Pipe, batch) => Ok(batch.unwrap_or(DEFAULT_BATCH)),
            (_, batch) => Ok(batch.unwrap_or(1)),
        }
    }

    /// Returns the family of a run that takes ids.
    pub(crate) fn family_name(&self) -> &str {
        self.family.as_deref().unwrap_or("snowflake")
    }

    /// Returns whether it names what ids do not have.
    fn rejects_ids(&self) -> bool {
        self.count > 1 || self.key_bytes.is_some() || !self.namespaces.is_empty()
    }

    /// Returns the namespace of a run that names none: like `default`, or like `keys` for keys.
    pub(crate) fn own_namespace(&self) -> NamespaceSpec {
        let (name, like) = match self.key_bytes {
            None => ("bench", NamespaceSpec::default_dense()),
            Some(_) => ("bench-keys", NamespaceSpec::default_keyed()),
        };
        NamespaceSpec {
            name: name.to_owned(),
            ..like
        }
    }
}
