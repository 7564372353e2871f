//! The command line of `seqsvr slot`.

use clap::{Args, Subcommand};

use super::common::ClientArgs;

#[derive(Subcommand)]
pub(crate) enum SlotCommand {
    /// Move one slot to another AllocSvr.
    ///
    /// No call fails. Each section continues above the highest number used in it.
    #[command(after_help = SLOT_MOVE_HELP)]
    Move(MoveSlotArgs),
    /// Move all slots off an AllocSvr, so that it can be stopped.
    ///
    /// The command waits until the AllocSvr owns no slot. It gets no slots until it restarts, or
    /// until the drain is canceled.
    #[command(after_help = SLOT_DRAIN_HELP)]
    Drain(DrainArgs),
}

const SLOT_MOVE_HELP: &str = "\
Example:
  seqsvr slot move 494 a2";
const SLOT_DRAIN_HELP: &str = "\
If the command times out, the AllocSvr continues to drain. Run the same command again to wait for
it.

Examples:
  seqsvr slot drain a2
  seqsvr slot drain a2 --cancel";

#[derive(Args)]
pub(crate) struct MoveSlotArgs {
    /// Slot to move; `seqsvr route` prints the slot of a uid or key.
    pub(crate) slot: u32,
    /// Name of the new owner, an AllocSvr.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// Name of the AllocSvr.
    pub(crate) name: String,
    /// Cancel the drain: let the AllocSvr own slots again.
    #[arg(long)]
    pub(crate) cancel: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
