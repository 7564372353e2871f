//! The command line of `seqsvr bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Server, duration};

pub(super) const BENCH_HELP: &str = "\
Everything received is verified: each number is new, and greater than every number of its key that had
been received when the call began. The command fails if one is not. It takes 8 bytes for each key.

Examples:
  seqsvr bench                                           # 64 calls in flight, each takes one number
  seqsvr bench --mode next-many --batch 100 --keys 10000000 --in-flight 16
  seqsvr bench --unary                                   # the same without the SDK: one request a number
  seqsvr bench --rate 20000 --distribution zipf          # open loop: latency from when a call was due";

#[derive(Args)]
pub(crate) struct Bench {
    /// Kind of the calls.
    #[arg(long, value_enum, default_value_t = Mode::Next)]
    pub(crate) mode: Mode,
    /// Clients, each with connections of its own.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) connections: u32,
    /// Calls in flight, over all connections.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) in_flight: u32,
    /// Uids from 0, or as many keys, in each namespace.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 31))]
    pub(crate) keys: u32,
    /// Use keys of this length instead of uids.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(10..=128))]
    pub(crate) key_bytes: Option<u32>,
    /// Distribution of the calls over the uids or keys.
    #[arg(long, value_enum, default_value_t = Distribution::Uniform)]
    pub(crate) distribution: Distribution,
    /// Namespaces, with as many calls each. Default: `default`, or `keys`.
    ///
    /// The default is `keys` with --key-bytes.
    #[arg(
        long = "namespace",
        short = 'n',
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    pub(crate) namespaces: Vec<String>,
    /// Send each call as one unary gRPC request, without the SDK.
    #[arg(long)]
    pub(crate) unary: bool,
    /// Items of a call. Default: 100 for next-many and pipe, 1 for current.
    ///
    /// A call of `next` has one item.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: Option<u32>,
    /// Numbers that each item takes.
    #[arg(long, short = 'c', default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Time that is measured, after the warm-up.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Time before it that is not measured.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) warm_up: Duration,
    /// Open-loop mode: start CALLS calls per second.
    ///
    /// Latency is measured from the scheduled start. Default: each answer is followed by the next
    /// call.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Record every call in this file, for `seqsvr check`.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// Kind of the calls of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The next number or numbers of one key.
    Next,
    /// The next numbers of many keys.
    NextMany,
    /// The same, each call one frame of a Pipe, without the SDK that would merge them.
    Pipe,
    /// The last number given out.
    Current,
}

/// Distribution of the calls over the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Distribution {
    /// All alike.
    Uniform,
    /// A few most of the time (Zipf's law, exponent 0.99), not next to each other.
    Zipf,
    /// One only.
    Hot,
}
