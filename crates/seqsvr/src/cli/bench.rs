//! The command line of `seqsvr bench`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use seqsvr_bench::{CallMode, KeyDistribution};

use super::common::ClientArgs;
use super::value_parsers::parse_duration;

pub(super) const BENCH_HELP: &str = "\
The command verifies every number: it is new, and greater than every number of its key that had been
received when the call began. Otherwise the command fails. It needs 8 bytes of memory for each key.

Examples:
  seqsvr bench                       # 64 calls in flight, each takes one number
  seqsvr bench --mode next-many --batch 100 --keys 10000000 --in-flight 16
  seqsvr bench --unary               # without the SDK: one gRPC request for each number
  seqsvr bench --mode ids --batch 1000    # ids of the family `snowflake`
  seqsvr bench --rate 20000 --distribution zipf   # open loop: latency from the scheduled start";

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// Kind of the calls.
    #[arg(long, value_enum, default_value_t = CallMode::Next)]
    pub(crate) mode: CallMode,
    /// Clients, each with its own connections.
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_000)
    )]
    pub(crate) connections: u32,
    /// Calls in flight, over all connections.
    #[arg(
        long,
        default_value_t = 64,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub(crate) in_flight: u32,
    /// Number of uids (from 0) or of keys in each namespace.
    #[arg(
        long,
        default_value_t = 10_000,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1 << 31)
    )]
    pub(crate) keys: u32,
    /// Use keys of this length instead of uids.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(10..=128))]
    pub(crate) key_bytes: Option<u32>,
    /// Distribution of the calls over the uids or keys.
    #[arg(long, value_enum, default_value_t = KeyDistribution::Uniform)]
    pub(crate) distribution: KeyDistribution,
    /// Namespaces, with the same number of calls each. Default: `bench` or `bench-keys`.
    ///
    /// The default is `bench-keys` with --key-bytes. The command creates either if it does not
    /// exist. Numbers of a namespace that you name here are skipped in it.
    #[arg(
        long = "namespace",
        short = 'n',
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    pub(crate) namespaces: Vec<String>,
    /// Family of --mode ids. Default: snowflake.
    #[arg(long, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// Send each call as one unary gRPC request, without the SDK.
    #[arg(long)]
    pub(crate) unary: bool,
    /// Items in a call. Default: 100 for next-many and pipe, 1 for current and ids.
    ///
    /// A call of `next` always has one item.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) batch: Option<u32>,
    /// Numbers that each item takes.
    #[arg(
        long,
        short = 'c',
        default_value_t = 1,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub(crate) count: u32,
    /// Measured time, after the warm-up.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Time before the measurement.
    #[arg(long, default_value = "1s", value_parser = parse_duration)]
    pub(crate) warm_up: Duration,
    /// Open-loop mode: start CALLS calls per second.
    ///
    /// Latency is measured from the scheduled start. Default: the next call starts after each
    /// answer.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rate: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Record every call in this file, for `seqsvr check`.
    #[arg(long, value_name = "FILE")]
    pub(crate) history: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
