//! The command line of `seqsvr slot move` and `seqsvr slot drain`.

use clap::Args;

use super::common::ClientArgs;

#[derive(Args)]
pub(crate) struct MoveArgs {
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
    /// Let the AllocSvr own slots again.
    #[arg(long)]
    pub(crate) cancel: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
