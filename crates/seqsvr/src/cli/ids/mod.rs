//! The command line of ids that carry the time.

mod families;
mod new;
mod next;
mod scheme_flags;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use seqsvr_ids::text::IdForm;

pub(crate) use families::{
    AlterFamilyArgs, ClockArgs, ClockChange, CreateFamilyArgs, RaiseFamilyArgs, RevokeWorkerArgs,
    WorkersArgs,
};
pub(crate) use new::{NewIdArgs, PolicyFlag};
pub(crate) use next::NextIdsArgs;
use scheme_flags::SchemeFlags;

use super::common::{ClientArgs, ListArgs};

#[derive(Subcommand)]
pub(crate) enum IdCommand {
    /// Take the next ids of a family and print them.
    Next(NextIdsArgs),
    /// Make ids without a server: UUIDs, GUIDs, stamps, or ids of a preset.
    New(NewIdArgs),
    /// Count the ids of a file by time and worker, and find duplicates.
    Stats(IdStatsArgs),
    /// Create a family of ids, whose workers the cluster grants.
    ///
    /// Without --preset and --layout it has the layout of the preset snowflake. A repeat with the
    /// same settings changes nothing.
    Create(Box<CreateFamilyArgs>),
    /// List all families.
    List(ListArgs),
    /// Change limits of a family.
    Alter(AlterFamilyArgs),
    /// Make every later grant of a family begin above an id or a time.
    RaiseTo(RaiseFamilyArgs),
    /// List the workers of a family that were granted, with their holders.
    Workers(WorkersArgs),
    /// Take a worker from its holder, which may use up its grant.
    ///
    /// No other holder gets the ticks of that grant.
    Revoke(RevokeWorkerArgs),
    /// Print store time and the clocks that it follows, or correct it.
    Clock(ClockArgs),
}

const DECODE_HELP: &str = "\
Without a preset or layout the command lists every preset that reads the id as a time from 2006 to
tomorrow, the most plausible first. Presets without an epoch of their own are not among them.

An id that cannot be decoded is reported on stderr, the others are decoded, and the exit code is 2.

Examples:
  seqsvr decode 1169786042799259000 --preset leaf
  seqsvr decode 225912364091068416 --preset twitter --epoch 2016-01-01 --long
  seqsvr decode 138500000000000001 --family orders
  seqsvr decode 5 --layout 0:1,time:31,worker:6,seq:16 --epoch 2026-01-01 --unit 1s
  seqsvr decode - --preset crate:snowflaked --json < ids.txt";

#[derive(Args)]
#[command(after_help = DECODE_HELP)]
pub(crate) struct DecodeArgs {
    /// Ids; - reads more from stdin, one a line of up to 1,024 bytes.
    ///
    /// Forms are dec, hex, base32 (Crockford), base36, base58, base62, and UUIDs and GUIDs with
    /// hyphens, without, in braces or as a URN. A name in front decides, as in base36:1psf8zbrfl6o.
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) scheme: SchemeFlags,
    /// Family of the cluster that made the ids; only this flag needs a server.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["preset", "layout", "epoch", "unit"])]
    pub(crate) family: Option<String>,
    /// Print time, number, maker, and the id as decimal, hex and bits, in one line.
    #[arg(long, conflicts_with = "json")]
    pub(crate) long: bool,
    /// Print one JSON object per line. Ids are strings, since JavaScript rounds numbers.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

const STATS_HELP: &str = "\
Examples:
  seqsvr id stats orders.csv --preset twitter --by hour
  zcat ids.gz | seqsvr id stats - --check --tmp /var/tmp";

#[derive(Args)]
#[command(after_help = STATS_HELP)]
pub(crate) struct IdStatsArgs {
    /// File with one id a line; - for stdin.
    ///
    /// A line has one id, or columns with commas, semicolons or tabs between them: the first one is
    /// the id, maybe in quotes. Blank lines are ignored. A first line that is no id and has no
    /// digit is a header, and the report names it. Any other line that is no id ends the command
    /// with the number of the line.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) scheme: SchemeFlags,
    /// Form of the ids: dec, hex, base32, base36, base58 or base62.
    ///
    /// Without it the ids are decimal, hexadecimal or UUIDs, as the first one is. A name in front
    /// decides too, as in base36:1psf8zbrfl6o.
    #[arg(long, value_parser = parse_form)]
    pub(crate) form: Option<IdForm>,
    /// Period in which ids are counted. Default: one that gives at most 40 rows.
    #[arg(long, value_name = "PERIOD")]
    pub(crate) by: Option<BucketFlag>,
    /// Find ids that occur twice, and ids that are smaller than one before.
    ///
    /// It is exact, and needs no preset and no layout. It needs 100 MB of memory up to a billion
    /// ids; a preset adds up to 250 MB if the ids are of millions of workers. Above 4 million ids
    /// it writes 16 bytes an id to unnamed files in --tmp. The exit code is 1 if an id occurs
    /// twice.
    #[arg(long)]
    pub(crate) check: bool,
    /// Directory of the temporary file of --check. Default: TMPDIR, or /tmp.
    #[arg(long, value_name = "DIR", requires = "check")]
    pub(crate) tmp: Option<PathBuf>,
}

/// Period in which ids are counted, in milliseconds.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BucketFlag {
    Second = 1_000,
    Minute = 60_000,
    Hour = 3_600_000,
    Day = 86_400_000,
}

const OPAQUE_HELP: &str = "\
A hidden number tells neither order nor volume to those who do not have the key. It is no
authentication: every number shows some number, so check who may see it as before.

The file has 64 hexadecimal digits, and every user of the machine may not read it:
  (umask 077; openssl rand -hex 32 > key)
  seqsvr hide 42 --key-file key --name orders

Keep the key: without it no hidden number can be shown, and another key shows another number.";

#[derive(Args)]
#[command(after_help = OPAQUE_HELP)]
pub(crate) struct OpaqueArgs {
    /// Numbers, 0 to 2^64 - 1; at most 2^53 - 1 with --bits 53.
    #[arg(value_name = "NUMBER", required = true)]
    pub(crate) numbers: Vec<u64>,
    /// File with the key.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: PathBuf,
    /// Namespace of the numbers; the same number is hidden differently in each.
    #[arg(long, value_name = "NS", default_value = "default")]
    pub(crate) name: String,
    /// Width of hidden numbers; JavaScript reads those of 53 bits exactly.
    ///
    /// A hidden number of 64 bits may be above 2^63 - 1, which signed columns do not have: use 53
    /// for them.
    #[arg(long, default_value = "64", value_parser = ["64", "53"])]
    pub(crate) bits: String,
}

/// Parses the name of a form.
fn parse_form(name: &str) -> Result<IdForm, String> {
    let form = IdForm::ALL.into_iter().find(|form| form.name() == name);
    form.ok_or_else(|| "forms are dec, hex, base32, base36, base58 and base62".to_owned())
}
