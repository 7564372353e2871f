//! The command line of ids that carry the time. These commands call no server.

mod decode;
mod new;
mod opaque;
mod scheme_flags;
mod stats;

use clap::Subcommand;

pub(super) use decode::DECODE_HELP;
pub(crate) use decode::DecodeArgs;
use new::NEW_ID_HELP;
pub(crate) use new::{NewIdArgs, PolicyFlag};
pub(super) use opaque::OPAQUE_HELP;
pub(crate) use opaque::OpaqueArgs;
use stats::STATS_HELP;
pub(crate) use stats::{BucketFlag, IdStatsArgs};

#[derive(Subcommand)]
pub(crate) enum IdCommand {
    /// Make ids: UUIDs, GUIDs, stamps, or ids of a preset.
    #[command(after_help = NEW_ID_HELP)]
    New(NewIdArgs),
    /// Count the ids of a file by time and worker, and find duplicates.
    #[command(after_help = STATS_HELP)]
    Stats(IdStatsArgs),
}
