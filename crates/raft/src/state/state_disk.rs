//! What the state machine has on the disk: rows, the newest snapshot, and the rows of an installed
//! snapshot that are not stored yet.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use seqsvr_core::state::RowKey;

use crate::error::Error;
use crate::state::sled_rows::SledRows;
use crate::state::snapshot;
use crate::storage::data_dir::DataDir;
use crate::types::SnapshotMeta;

/// Rows and snapshots of the state machine on the disk.
pub(crate) struct StateDisk {
    pub(crate) rows: SledRows,
    pub(crate) backfill: RowBackfill,
    /// The newest snapshot.
    pub(super) current_snapshot: Mutex<Option<(SnapshotMeta, PathBuf)>>,
    /// Index of its last entry.
    pub(super) newest_index: Arc<AtomicU64>,
    pub(crate) directory: DataDir,
}

impl StateDisk {
    pub(super) fn new(
        directory: &DataDir,
        rows: SledRows,
        newest: Option<SnapshotMeta>,
    ) -> StateDisk {
        let index = newest.as_ref().map_or(0, last_index_of);
        let current = newest.map(|meta| {
            let path = snapshot::snapshot_path(directory, &meta);
            (meta, path)
        });
        StateDisk {
            rows,
            backfill: RowBackfill::default(),
            current_snapshot: Mutex::new(current),
            newest_index: Arc::new(AtomicU64::new(index)),
            directory: directory.clone(),
        }
    }

    /// Makes a durable snapshot the current one, unless a newer one was installed before that.
    pub(crate) fn set_current_snapshot(
        &self,
        meta: &SnapshotMeta,
        path: PathBuf,
    ) -> Result<(), Error> {
        let mut current = self.current_snapshot.lock();
        if current
            .as_ref()
            .is_none_or(|(c, _)| c.last_log_id <= meta.last_log_id)
        {
            snapshot::remove_older_than(&self.directory, &path)?;
            self.newest_index
                .store(last_index_of(meta), Ordering::Release);
            *current = Some((meta.clone(), path));
        }
        Ok(())
    }
}

fn last_index_of(meta: &SnapshotMeta) -> u64 {
    meta.last_log_id.map_or(0, |id| id.index)
}

/// Remaining work to store installed snapshots.
#[derive(Default)]
pub(crate) struct RowBackfill {
    storing: Mutex<()>,
    pub(super) work: Mutex<BackfillWork>,
}

#[derive(Default)]
pub(super) struct BackfillWork {
    /// Number of the newest install. A backfill of an older one stops.
    pub(super) install: u64,
    /// Whether the rows of the newest install are being stored.
    pub(super) is_pending: bool,
    /// Rows that no state since the last complete backfill has any more.
    pub(super) gone: BTreeSet<RowKey>,
}

impl RowBackfill {
    /// Locks the order of steps: hold it from reading rows in memory until they are stored.
    pub(crate) fn lock_storing(&self) -> MutexGuard<'_, ()> {
        self.storing.lock()
    }

    /// Begins the backfill of another install. Returns its number.
    pub(crate) fn begin_install(&self) -> u64 {
        let mut work = self.work.lock();
        work.install += 1;
        work.is_pending = true;
        work.install
    }

    /// Returns whether the rows on the disk lag behind those in memory.
    #[cfg(test)]
    pub(crate) fn is_pending(&self) -> bool {
        self.work.lock().is_pending
    }

    pub(super) fn is_newest(&self, install: u64) -> bool {
        self.work.lock().install == install
    }
}
