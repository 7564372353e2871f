//! The command line of ids that carry the time. These commands call no server.

mod decode;
mod new;
mod opaque;
mod scheme_flags;
mod stats;

use clap::Subcommand;
use seqsvr_ids::text::IdForm;

pub(super) use decode::DECODE_HELP;
pub(crate) use decode::DecodeArgs;
use new::NEW_ID_HELP;
pub(crate) use new::{NewIdArgs, PolicyFlag};
pub(super) use opaque::OPAQUE_HELP;
pub(crate) use opaque::OpaqueArgs;
pub(crate) use stats::IdStatsArgs;
use stats::STATS_HELP;

#[derive(Subcommand)]
pub(crate) enum IdCommand {
    /// Make ids: UUIDs, GUIDs, stamps, or ids of a preset.
    #[command(after_help = NEW_ID_HELP)]
    New(NewIdArgs),
    /// Count the ids of a file by time and worker, and find duplicates.
    #[command(after_help = STATS_HELP)]
    Stats(IdStatsArgs),
}

/// Parses the name of a form.
fn parse_form(name: &str) -> Result<IdForm, String> {
    let form = IdForm::ALL.into_iter().find(|form| form.name() == name);
    form.ok_or_else(|| "forms are dec, hex, base32, base36, base58 and base62".to_owned())
}
