//! The command line of `seqsvr backup` and `seqsvr restore`.

use std::path::PathBuf;

use clap::Args;
use seqsvr_ids::text::parse_epoch;

use super::common::ClientArgs;
use super::servers::StoreIdentityArgs;

pub(super) const BACKUP_HELP: &str = "\
The backup blocks no call. The command reads the file back to check it, and never overwrites an
existing file. Only the user who runs it can read the file. With - it writes to stdout, checks the
same bytes, and prints its report to stderr. If its exit code is not 0, discard what stdout got.

Examples:
  seqsvr backup seqsvr-$(date +%F).backup --server 127.0.0.1:7700
  set -o pipefail; seqsvr backup - | gzip > seqsvr.backup.gz";

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// File to write, which must not exist; - for stdout.
    pub(crate) file: PathBuf,
    /// Read the data directory of a stopped store instead of the running cluster.
    ///
    /// Use it only if a majority of the directories is lost and no recent backup exists. --server
    /// has no effect then.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

pub(super) const RESTORE_HELP: &str = "\
Use it only if a majority of the StoreSvrs is lost permanently. Stop everything of the old cluster
first. Numbers issued after the backup are issued again unless the margins cover them. Without
margins the command fails, and prints the facts of the backup that help to choose them. A margin
that is too large only makes every sequence skip ahead. No family gives an id before the time of
--ids-from. The data directory must be new or empty.

Example, in two shells; then grow with `seqsvr member add`:
  seqsvr restore FILE --id 1 --listen 127.0.0.1:7801 --data-dir data/r1 \\
    --max-seq-margin 100000000 --start-margin 100000000 --epoch-margin 1000000 \\
    --ids-from \"$(date -ud '+2 hours' +%FT%TZ)\"
  seqsvr store --id 1 --listen 127.0.0.1:7801 --data-dir data/r1";

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// Backup file to read.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) identity: StoreIdentityArgs,
    /// Margin: maximum numbers that one section can have received since the backup.
    #[arg(long, value_name = "N")]
    pub(crate) max_seq_margin: Option<u64>,
    /// Margin: maximum numbers that one section not in the backup can have received.
    #[arg(long, value_name = "N")]
    pub(crate) start_margin: Option<u64>,
    /// Margin: maximum owner changes that one slot can have had since the backup.
    #[arg(long, value_name = "N")]
    pub(crate) epoch_margin: Option<u64>,
    /// Margin of ids: a time after all ticks that were granted; no ids until then.
    ///
    /// It is needed if the backup has families, or if families were made after it.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    pub(crate) ids_from: Option<u64>,
}
