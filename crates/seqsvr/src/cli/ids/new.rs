//! The command line of `seqsvr id new`.

use clap::{Args, ValueEnum};
use seqsvr_ids::text::{IdForm, parse_epoch};

use super::parse_form;

/// Most ids of one call; a larger count is rejected.
const COUNT_MAX: u64 = 1_000_000_000;

const NEW_ID_HELP: &str = "\
Kinds:
  uuid7, uuid6  UUIDs that sort by time; uuid7 is the one to begin with
  uuid4, uuid1  random; by time in an order that does not sort
  uuid3, uuid5  of a NAMESPACE (dns, url, oid, x500 or a UUID) and a NAME, by MD5 or SHA-1
  uuid8         an id of the preset snowflake in the form of a UUID
  guid          uuid4 as Windows writes it: braces and capitals
  stamp         time in 100 ns and random digits; unique only if a unique key rejects repetitions
  any preset    snowflake, twitter, sonyflake, crate:snowflaked ... (docs/guide/id-presets.md)

Ids of a preset are unique among processes only if each worker number has one process at a time. The
command begins with the next tick and keeps nothing: if it is started again while the clock is
behind, or after ids ahead of the clock, it may repeat ids.

Examples:
  seqsvr id new uuid7 --count 3
  seqsvr id new uuid5 dns example.com
  seqsvr id new snowflake --worker 3 --form base62
  seqsvr id new twitter --dc 1 --worker 2 --policy refuse
  seqsvr id new uidgenerator --epoch 2026-01-01 --worker-from env:WORKER";

#[derive(Args)]
#[command(after_help = NEW_ID_HELP)]
pub(crate) struct NewIdArgs {
    /// Kind of ids, or a preset.
    pub(crate) kind: String,
    /// Namespace of uuid3 and uuid5.
    #[arg(requires = "name")]
    pub(crate) namespace: Option<String>,
    /// Name of uuid3 and uuid5.
    pub(crate) name: Option<String>,
    /// Ids to make, 1 to 1,000,000,000; printed one per line.
    #[arg(
        long,
        short = 'c',
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX)
    )]
    pub(crate) count: u64,
    /// Worker number. Default: 0, with a warning.
    #[arg(long, value_name = "N", conflicts_with = "worker_from")]
    pub(crate) worker: Option<u64>,
    /// Source of the worker number: env:VARIABLE, hostname, ip or mac.
    #[arg(long, value_name = "SOURCE")]
    pub(crate) worker_from: Option<String>,
    /// Data center, or the upper of two levels of a worker. Default: 0.
    #[arg(long, value_name = "N")]
    pub(crate) dc: Option<u32>,
    /// What to do while the clock is behind.
    ///
    /// Default: what the system of the preset does, or hold.
    #[arg(long)]
    pub(crate) policy: Option<PolicyFlag>,
    /// Time of tick 0 in place of that of the preset.
    ///
    /// A date, a time of RFC 3339, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    pub(crate) epoch: Option<u64>,
    /// Form of ids of a preset: dec, hex, base32 (Crockford), base36, base58 or base62.
    #[arg(long, value_parser = parse_form)]
    pub(crate) form: Option<IdForm>,
    /// Random digits of a stamp, 1 to 18. Default: 4.
    #[arg(long, value_name = "N")]
    pub(crate) digits: Option<u32>,
    /// Let stamps fall with time, so that the newest sorts first.
    #[arg(long)]
    pub(crate) falling: bool,
}

/// Policy of a generator for a clock that is behind.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PolicyFlag {
    /// End with an error.
    Refuse,
    /// Wait up to 5 ticks, or else end with an error.
    Wait,
    /// Continue in the last tick, then wait.
    Hold,
    /// Continue in later ticks, at most 1,000 in front of the clock.
    Ahead,
    /// Continue in the next lane, each lane once.
    RollbackBits,
    /// Continue in the lane that is least far.
    Timelines,
}
