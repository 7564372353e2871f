//! The command line of `seqsvr backup` and `seqsvr restore`.

use std::path::PathBuf;

use clap::Args;

use super::Server;
use super::serve::Place;

pub(super) const BACKUP_HELP: &str = "\
Nothing waits for it and no call fails. The file is checked after it was written; one that exists is
never overwritten.

Example:
  seqsvr backup seqsvr-$(date +%F).backup --server 127.0.0.1:7700";

#[derive(Args)]
pub(crate) struct Backup {
    /// File to write. It must not exist.
    pub(crate) file: PathBuf,
    /// Read the data directory of a stopped store instead of asking the cluster.
    ///
    /// Only for when a majority of the directories is lost and no fresh backup exists. --server is
    /// not used then.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: Server,
}

pub(super) const RESTORE_HELP: &str = "\
Only for when a majority of the StoreSvrs is lost for good: stop everything of the old cluster first.
What it handed out after the backup is handed out again unless the margins cover it. Without margins
the command refuses, and tells what the backup knows that helps to choose them. A margin too large
costs nothing but a jump. The data directory must be new or empty.

Example, in two shells; then grow with `seqsvr member add`:
  seqsvr restore FILE --id 1 --listen 127.0.0.1:7801 --data-dir data/r1 \\
    --lift-max-seq 100000000 --lift-start 100000000 --lift-epoch 1000000
  seqsvr store --id 1 --listen 127.0.0.1:7801 --data-dir data/r1";

#[derive(Args)]
pub(crate) struct Restore {
    /// Backup to read.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Maximum numbers that any one section can have received since the backup.
    #[arg(long, value_name = "N")]
    pub(crate) lift_max_seq: Option<u64>,
    /// Maximum numbers that any one section not in the backup can have received.
    #[arg(long, value_name = "N")]
    pub(crate) lift_start: Option<u64>,
    /// Maximum changes of owner that any one slot can have had since the backup.
    #[arg(long, value_name = "N")]
    pub(crate) lift_epoch: Option<u64>,
}
