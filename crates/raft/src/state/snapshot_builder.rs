//! Writes snapshots while entries are applied.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use openraft::storage::RaftSnapshotBuilder;
use seqsvr_core::state::State;

use crate::blocking::run_blocking;
use crate::state::applied_state::AppliedState;
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
    state: State,
    meta: SnapshotMeta,
    disk: Arc<StateDisk>,
    counters: Arc<SnapshotCounters>,
    /// Released when the build ends.
    turn: Option<BuildTurn>,
}

impl SnapshotBuilder {
    /// Takes the state as it is now: a copy that shares its pages.
    pub(crate) fn new(
        applied: &AppliedState,
        disk: &Arc<StateDisk>,
        counters: &Arc<SnapshotCounters>,
        turn: BuildTurn,
    ) -> SnapshotBuilder {
        SnapshotBuilder {
            state: applied.state.clone(),
            meta: applied.snapshot_meta(),
            disk: disk.clone(),
            counters: counters.clone(),
            turn: Some(turn),
        }
    }
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotFile;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let state = std::mem::take(&mut self.state);
        let (meta, disk) = (self.meta.clone(), self.disk.clone());
        let file = run_blocking(move || {
            let file = snapshot::write_snapshot(&disk.directory, &meta, &state)?;
            disk.set_current_snapshot(&meta, file.path.clone())?;
            Ok(file)
        })
        .await?;
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
