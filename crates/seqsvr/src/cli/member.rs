//! The command line of `seqsvr member`.

use clap::{Args, Subcommand};

use super::common::{ClientArgs, ListArgs};

#[derive(Subcommand)]
pub(crate) enum MemberCommand {
    /// List the StoreSvrs: id, address, role, lag and last ack.
    ///
    /// The lag is the number of log entries that the store is behind the leader. The last ack is
    /// the time since the leader sent the last message that the store acknowledged.
    #[command(after_help = MEMBER_LIST_HELP)]
    List(ListArgs),
    /// Add a StoreSvr that runs on a new data directory.
    ///
    /// The command waits until the StoreSvr has caught up and is a voter.
    #[command(after_help = MEMBER_ADD_HELP)]
    Add(AddMemberArgs),
    /// Remove a StoreSvr, dead or alive.
    #[command(after_help = MEMBER_REMOVE_HELP)]
    Remove(RemoveMemberArgs),
    /// Transfer the leadership to another StoreSvr.
    ///
    /// The command waits until the other StoreSvr is the leader.
    #[command(after_help = MEMBER_TRANSFER_HELP)]
    Transfer(TransferLeadershipArgs),
}

const MEMBER_LIST_HELP: &str = "\
Example:
  seqsvr member list --server 127.0.0.1:7700";
const MEMBER_ADD_HELP: &str = "\
The id must never have been used in this cluster. The data directory must be empty.
If the command times out, the new store continues to catch up as a learner. Run the same command
again to wait for it.

Example, in two shells:
  seqsvr store --id 4 --listen 127.0.0.1:7804 --data-dir data/s4
  seqsvr member add 4=127.0.0.1:7804 --server 127.0.0.1:7700";
const MEMBER_REMOVE_HELP: &str = "\
Stop its process afterwards, and never use its id again. To replace a dead store, remove it first,
then add a new one with a new id.

Example:
  seqsvr member remove 2 --server 127.0.0.1:7700";
const MEMBER_TRANSFER_HELP: &str = "\
Examples:
  seqsvr member transfer 3     # to store 3
  seqsvr member transfer       # to any store that is up to date";

#[derive(Args)]
pub(crate) struct AddMemberArgs {
    /// Id and address of the new store.
    #[arg(value_name = "ID=ADDR")]
    pub(crate) store: String,
    /// Print JSON, one object per StoreSvr.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct RemoveMemberArgs {
    /// Id of the store.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) id: u64,
    /// Print JSON, one object per StoreSvr.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct TransferLeadershipArgs {
    /// Id of the new leader. Default: any store that is up to date.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) id: Option<u64>,
    /// Print JSON, one object per StoreSvr.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
