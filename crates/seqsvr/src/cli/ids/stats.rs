//! The command line of `seqsvr id stats`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use seqsvr_ids::text::IdForm;

use super::parse_form;
use super::scheme_flags::SchemeFlags;

pub(super) const STATS_HELP: &str = "\
A line has one id, or columns with commas, semicolons or tabs between them: the first one is the
id, maybe in quotes. Blank lines are ignored. A first line that is no id and has no digit is a
header, and the report names it. Any other line that is no id ends the command with the
number of the line.

Without --form the ids are decimal, hexadecimal or UUIDs, as the first one is. A name in front
decides too, as in base36:1psf8zbrfl6o.

--check needs 100 MB of memory up to a billion ids; a preset adds up to 250 MB if the ids are of
millions of workers. Above 4 million ids it writes 16 bytes an id to unnamed files in --tmp. The
exit code is 1 if an id occurs twice.

Examples:
  seqsvr id stats orders.csv --preset twitter --by hour
  zcat ids.gz | seqsvr id stats - --check --tmp /var/tmp";

#[derive(Args)]
pub(crate) struct IdStatsArgs {
    /// File with one id a line; - for stdin.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) scheme: SchemeFlags,
    /// Form of the ids: dec, hex, base32, base36, base58 or base62.
    #[arg(long, value_parser = parse_form)]
    pub(crate) form: Option<IdForm>,
    /// Period in which ids are counted. Default: one that gives at most 40 rows.
    #[arg(long, value_name = "PERIOD")]
    pub(crate) by: Option<BucketFlag>,
    /// Find ids that occur twice, and ids that are smaller than one before.
    ///
    /// It is exact, and needs no preset and no layout.
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
