//! Writes snapshots while entries are applied.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft::storage::RaftSnapshotBuilder;
use seqsvr_core::state::State;

use crate::blocking::run_blocking;
use crate::state::applied_state::SharedState;
use crate::state::snapshot::{self, Snapshot, SnapshotFile};
use crate::state::snapshot_turns::BuildTurn;
use crate::state::state_disk::StateDisk;
use crate::types::{SnapshotMeta, TypeConfig};

/// Snapshots made and received since the start.
#[derive(Default)]
pub(crate) struct SnapshotCounters {
    pub(crate) built: AtomicU64,
    pub(crate) installed: AtomicU64,
}

/// Writer of a snapshot of the state at the moment of the request.
pub(crate) struct SnapshotBuilder {
    /// A copy that shares its pages.
    pub(super) state: State,
    pub(super) meta: SnapshotMeta,
    pub(super) shared: Arc<SharedState>,
    pub(super) disk: Arc<StateDisk>,
    pub(super) counters: Arc<SnapshotCounters>,
    /// Released when the build ends.
    pub(super) turn: Option<BuildTurn>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let state = std::mem::take(&mut self.state);
        let (meta, disk) = (self.meta.clone(), self.disk.clone());
        let built = run_blocking(move || {
            let file = snapshot::write_snapshot(&disk.directory, &meta, &state)?;
            disk.set_current_snapshot(&meta, file.path.clone())?;
            Ok(file)
        })
        .await;
        let file = built.map_err(|e| self.shared.first_error.get_or_record(e))?;
        #[cfg(sim)]
        let file = reopen_if_planted(file).await?;
        self.turn = None;
        self.counters.built.fetch_add(1, Ordering::Relaxed);
        Ok(Snapshot {
            meta: self.meta.clone(),
            snapshot: file,
        })
    }
}

/// Opens a snapshot once more, under its final name, if the bug that does so is planted.
#[cfg(sim)]
async fn reopen_if_planted(file: SnapshotFile) -> io::Result<SnapshotFile> {
    if !seqsvr_core::planted!(OpenAfterRename) {
        return Ok(file);
    }
    let reopened = run_blocking(move || {
        let opened = SnapshotFile::open(&file.path);
        opened.map_err(crate::error::Error::io("cannot open", &file.path))
    });
    reopened.await
}
