//! The command line of `seqsvr decode`.

use clap::Args;

use super::scheme_flags::SchemeFlags;

pub(in crate::cli) const DECODE_HELP: &str = "\
Without a preset or layout the command lists every preset that reads the id as a time from 2006 to
tomorrow, the most plausible first. Presets without an epoch of their own are not among them.

Forms are dec, hex, base32 (Crockford), base36, base58, base62, and UUIDs and GUIDs with hyphens,
without, in braces or as a URN. A name in front decides, as in base36:1psf8zbrfl6o.

An id that cannot be decoded is reported on stderr, the others are decoded, and the exit code is 2.

Examples:
  seqsvr decode 1169786042799259000 --preset leaf
  seqsvr decode 225912364091068416 --preset twitter --epoch 2016-01-01 --long
  seqsvr decode 5 --layout 0:1,time:31,worker:6,seq:16 --epoch 2026-01-01 --unit 1s
  seqsvr decode - --preset crate:snowflaked --json < ids.txt";

#[derive(Args)]
pub(crate) struct DecodeArgs {
    /// Ids; - reads more from stdin, one a line of up to 1,024 bytes.
    #[arg(value_name = "ID", required = true, allow_negative_numbers = true)]
    pub(crate) ids: Vec<String>,
    #[command(flatten)]
    pub(crate) scheme: SchemeFlags,
    /// Print time, number, maker, and the id as decimal, hex and bits, in one line.
    #[arg(long, conflicts_with = "json")]
    pub(crate) long: bool,
    /// Print one JSON object per line. Ids are strings, since JavaScript rounds numbers.
    #[arg(long)]
    pub(crate) json: bool,
}
