//! The command line of families of ids, their workers, and store time.

use std::time::Duration;

use clap::{Args, Subcommand};
use seqsvr_core::family::{FamilyChange, TickStart};
use seqsvr_ids::text::parse_epoch;

use super::scheme_flags::SchemeFlags;
use crate::cli::common::{ClientArgs, ListArgs};
use crate::cli::value_parsers::{parse_duration, parse_nonzero_duration};

const CREATE_HELP: &str = "\
Examples:
  seqsvr id create orders
  seqsvr id create tweets --preset twitter --dc 3 --reserve 0-15
  seqsvr id create web --layout time:41,worker:3,seq:9 --epoch 2026-01-01 --ahead 500ms";

#[derive(Args)]
#[command(after_help = CREATE_HELP)]
pub(crate) struct CreateFamilyArgs {
    /// Name of the new family: 1 to 64 of `a-z A-Z 0-9 _ . -`.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) scheme: SchemeFlags,
    /// Data center of this cluster, in layouts that have one.
    #[arg(long, default_value_t = 0)]
    pub(crate) dc: u32,
    /// Workers of the family. Default: all that the layout has.
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_range)]
    pub(crate) workers: Option<(u32, u32)>,
    /// Workers that are never granted; may be repeated.
    ///
    /// Such as those of nodes that still make ids by another system.
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_range)]
    pub(crate) reserve: Vec<(u32, u32)>,
    /// Use of lanes after store time was set back.
    ///
    /// reuse: one is used again once its ticks have passed; once: each is used for one set-back.
    /// Default: reuse; once with the preset rollbacks.
    #[arg(long, value_parser = ["reuse", "once"])]
    pub(crate) lanes: Option<String>,
    /// Whether a worker is granted again.
    ///
    /// oldest: the one whose ticks passed first is granted first; never: each is granted once.
    #[arg(long, default_value = "oldest", value_parser = ["oldest", "never"])]
    pub(crate) reuse: String,
    /// Grant a holder the worker that it had under its name before.
    #[arg(long)]
    pub(crate) sticky: bool,
    /// Reject a layout whose time ends in fewer years, 0 to 1,000.
    #[arg(
        long,
        default_value_t = 10,
        value_name = "YEARS",
        value_parser = clap::value_parser!(u64).range(..=1_000)
    )]
    pub(crate) years_min: u64,
    #[command(flatten)]
    pub(crate) limits: FamilyLimitArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// Limits that `id create` and `id alter` share.
#[derive(Args)]
pub(crate) struct FamilyLimitArgs {
    /// How far a grant reaches in front of store time, 1s to 24h.
    ///
    /// Without a store, a holder makes ids for at least half of this time. Default of a new family:
    /// 10s.
    #[arg(long, value_name = "TIME", value_parser = parse_nonzero_duration)]
    pub(crate) window: Option<Duration>,
    /// Longest window that a holder may request, up to 24h. Default of a new family: 1h.
    #[arg(long, value_name = "TIME", value_parser = parse_nonzero_duration)]
    pub(crate) window_max: Option<Duration>,
    /// How far a holder stamps ids in front of its time, up to half of --window.
    ///
    /// It does so in a burst, when the numbers of a tick are used up. Default of a new family: 1s.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) ahead: Option<Duration>,
    /// Number with which a tick begins: zero, random:N or carry.
    ///
    /// random:N is a number below N; carry continues after the last tick. Default of a new family:
    /// zero.
    #[arg(long, value_name = "START")]
    pub(crate) seq_start: Option<TickStart>,
    /// Most workers of one holder. Default of a new family: 16.
    #[arg(long, value_name = "N")]
    pub(crate) workers_per_holder: Option<u32>,
}

impl FamilyLimitArgs {
    /// Returns the change that the flags name.
    pub(crate) fn to_change(&self) -> FamilyChange {
        // Above 2^32 ms every limit is out of its bounds.
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        FamilyChange {
            window_ms: self.window.map(ms),
            window_max_ms: self.window_max.map(ms),
            ahead_ms: self.ahead.map(ms),
            sequence_start: self.seq_start,
            workers_per_holder: self.workers_per_holder,
            frozen: None,
        }
    }
}

#[derive(Args)]
pub(crate) struct AlterFamilyArgs {
    /// Name of the family.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) limits: FamilyLimitArgs,
    /// Stop grants and renewals (`true`), or permit them (`false`).
    #[arg(long)]
    pub(crate) frozen: Option<bool>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("floor").args(["id", "time"]).required(true))]
pub(crate) struct RaiseFamilyArgs {
    /// Name of the family.
    pub(crate) name: String,
    /// Greatest id that exists: later grants begin above its tick.
    ///
    /// In any form that `seqsvr decode` reads; --time may stand in its place.
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// Time before which no later grant begins.
    ///
    /// A date, a time of RFC 3339, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    pub(crate) time: Option<u64>,
    /// Raise it also if that is more than `ahead` in front of store time.
    ///
    /// No worker is granted until store time is there.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct WorkersArgs {
    /// Name of the family.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

#[derive(Args)]
pub(crate) struct RevokeWorkerArgs {
    /// Name of the family.
    pub(crate) name: String,
    /// Worker that a holder has.
    pub(crate) worker: u32,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ClockArgs {
    #[command(subcommand)]
    pub(crate) change: Option<ClockChange>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

#[derive(Subcommand)]
pub(crate) enum ClockChange {
    /// Follow the clocks of the stores, which are right.
    Accept(ListArgs),
    /// Set store time back, after a majority of the clocks was ahead.
    Back(SetClockArgs),
}

#[derive(Args)]
pub(crate) struct SetClockArgs {
    /// The time: a date, a time of RFC 3339, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    pub(crate) to: u64,
    /// Set it also if that stops holders or grants, or if it is ahead.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) list: ListArgs,
}

fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let bad = || "write the first and the last one, such as 0-15, or one number".to_owned();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u32>().map_err(|_| bad());
    match (number(first)?, number(last)?) {
        (first, last) if first <= last => Ok((first, last)),
        _ => Err(bad()),
    }
}
