//! openraft's state machine over [`AppliedState`], [`SledRows`] and snapshot files.
//!
//! Order within a step: memory (one write lock for the step), then sled, then watchers and callers.
//! Sled may lose the step; memory is rebuilt from snapshot and log. Order of a snapshot: the file
//! is durable under its final name before openraft gets it, because openraft purges the log next.
//! The rows of an installed snapshot are stored afterwards, see [`crate::state::backfill`].

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use seqsvr_core::reached;

use crate::blocking::run_blocking;
use crate::error::Error;
use crate::state::applied_state::{AppliedState, SharedState};
use crate::state::backfill;
use crate::state::sled_rows::SledRows;
use crate::state::snapshot::{self, Snapshot, SnapshotFile};
use crate::state::snapshot_builder::{SnapshotBuilder, SnapshotCounters};
use crate::state::snapshot_turns::{BuildTurn, SnapshotTurns};
#[cfg(test)]
use crate::state::state_disk::RowBackfill;
use crate::state::state_disk::StateDisk;
use crate::storage::data_dir::{self, DataDir};
use crate::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};

/// Most entries of one step.
const ENTRIES_PER_STEP_MAX: usize = 64;

/// The state machine of one node.
#[derive(Clone)]
pub(crate) struct StateMachine {
    shared: Arc<SharedState>,
    disk: Arc<StateDisk>,
    pub(crate) counters: Arc<SnapshotCounters>,
    /// Turns of building and sending snapshots.
    pub(crate) turns: SnapshotTurns,
    /// Entries behind the newest snapshot after which another is built, even while one is being
    /// sent.
    forced_build_entries: u64,
    /// Whether the newest snapshot is damaged, so that the next one is built in any case.
    must_rebuild: Arc<AtomicBool>,
}

impl StateMachine {
    pub(crate) fn new(
        directory: &DataDir,
        rows: SledRows,
        applied: AppliedState,
        newest: Option<SnapshotMeta>,
        forced_build_entries: u64,
    ) -> StateMachine {
        StateMachine {
            shared: Arc::new(SharedState::new(applied, &directory.state_path())),
            disk: Arc::new(StateDisk::new(directory, rows, newest)),
            counters: Arc::default(),
            turns: SnapshotTurns::default(),
            forced_build_entries,
            must_rebuild: Arc::default(),
        }
    }

    pub(crate) fn shared_state(&self) -> Arc<SharedState> {
        self.shared.clone()
    }

    /// Lets the next snapshot be built even while one is being sent.
    pub(crate) fn rebuild_snapshot(&self) {
        self.must_rebuild.store(true, Ordering::Release);
    }

    fn new_builder(&self, turn: BuildTurn) -> SnapshotBuilder {
        let applied = self.shared.applied.read();
        SnapshotBuilder {
            state: applied.state.clone(),
            meta: applied.snapshot_meta(),
            shared: self.shared.clone(),
            disk: self.disk.clone(),
            counters: self.counters.clone(),
            turn: Some(turn),
        }
    }

    /// Returns the index of the last entry in the newest snapshot.
    pub(crate) fn newest_snapshot_index(&self) -> Arc<AtomicU64> {
        self.disk.newest_index.clone()
    }

    /// Reads the newest snapshot from the disk and checks all of it.
    pub(crate) fn verify_newest(&self) -> Result<(), Error> {
        let (meta, snapshot) = {
            let current = self.disk.current_snapshot.lock();
            let Some((meta, path)) = current.as_ref() else {
                return Ok(());
            };
            let file = SnapshotFile::open(path).map_err(Error::io("cannot open", path))?;
            (meta.clone(), file)
        };
        snapshot::verify_snapshot(&snapshot, &meta)
    }

    fn install_received(&self, meta: &SnapshotMeta, received: SnapshotFile) -> Result<(), Error> {
        let (received, header, new) = match received.take_content() {
            Ok(prepared) => prepared,
            // This node's own snapshot at the start; no leader waits yet.
            Err(unread) => unread.into_prepared()?.take_content().map_err(|unread| {
                Error::damaged(&unread.path, "it has no content after it was read")
            })?,
        };
        if header != *meta {
            return Err(Error::damaged(
                &received.path,
                "its header is not what its sender announced",
            ));
        }
        let path = snapshot::snapshot_path(&self.disk.directory, meta);
        if received.path != path {
            data_dir::publish_file(&received.path, &path)?;
        }
        let install = self.disk.backfill.begin_install();
        let old = self.replace_state(new);
        self.shared.announce_position();
        self.disk.set_current_snapshot(meta, path)?;
        let (disk, shared) = (Arc::downgrade(&self.disk), Arc::downgrade(&self.shared));
        seqsvr_os::spawn_blocking(move || backfill::run_backfill(&disk, &shared, install, old));
        Ok(())
    }

    /// Applies entries in steps; applies none after a failure, such as that of a backfill.
    async fn apply_entries<S>(&self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + Send,
    {
        let mut steps = entries.ready_chunks(ENTRIES_PER_STEP_MAX);
        while let Some(items) = steps.next().await {
            let mut touched = BTreeSet::new();
            let mut answers = Vec::new();
            if let Some(failure) = self.shared.first_error.get() {
                return Err(failure.clone().into());
            }
            let storing = self.disk.backfill.lock_storing();
            let batch = {
                let mut applied = self.shared.applied.write();
                for item in items {
                    let (entry, responder) = item?;
                    let replies = applied.apply_entry(&entry, &mut touched)?;
                    let checkpoints = &self.shared.checkpoints;
                    checkpoints.record(entry.log_id.index, applied.digest());
                    answers.extend(responder.map(|r| (r, replies)));
                }
                self.disk.rows.prepare_batch(&applied, touched)?
            };
            self.disk.rows.commit_batch(batch)?;
            drop(storing);
            self.shared.announce_position();
            for (responder, replies) in answers {
                responder.send(replies);
            }
        }
        Ok(())
    }

    /// Replaces the state in memory. Returns the old one: dropping it takes longer the more
    /// sections it has, so it must not be dropped under the lock.
    pub(crate) fn replace_state(&self, mut new: AppliedState) -> AppliedState {
        // No entry is between its step in memory and its step on the disk.
        let _storing = self.disk.backfill.lock_storing();
        let mut applied = self.shared.applied.write();
        new.growth_meter = std::mem::take(&mut applied.growth_meter);
        new.growth_meter.restart();
        std::mem::replace(&mut *applied, new)
    }

    /// Stores this number of parts of the rows after [`StateMachine::replace_state`], like a
    /// process that is killed then.
    #[cfg(test)]
    pub(crate) fn store_some_rows(&self, old: AppliedState, part_rows: usize, parts: usize) {
        let (disk, shared) = (Arc::downgrade(&self.disk), Arc::downgrade(&self.shared));
        let install = self.disk.backfill.begin_install();
        backfill::store_parts(&disk, &shared, install, old, part_rows, parts).unwrap();
    }

    /// Returns the remaining work to store an installed snapshot.
    #[cfg(test)]
    pub(crate) fn row_backfill(&self) -> &RowBackfill {
        &self.disk.backfill
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = self.shared.applied.read();
        Ok((applied.last_applied, applied.membership.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + Send,
    {
        let applied = self.apply_entries(entries).await;
        applied.map_err(|e| self.shared.first_error.get_or_record(e))
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<SnapshotBuilder> {
        let newest_index = self.disk.newest_index.load(Ordering::Acquire);
        let entries = self
            .shared
            .applied
            .read()
            .last_index()
            .saturating_sub(newest_index);
        let must = force
            || entries >= self.forced_build_entries
            || self.must_rebuild.load(Ordering::Acquire);
        let turn = match must {
            true => self.turns.force_build(),
            false => self.turns.try_build()?,
        };
        self.must_rebuild.store(false, Ordering::Release);
        Some(self.new_builder(turn))
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        self.new_builder(self.turns.force_build())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        let (machine, meta) = (self.clone(), meta.clone());
        let installed = run_blocking(move || machine.install_received(&meta, snapshot)).await;
        installed.map_err(|e| self.shared.first_error.get_or_record(e))?;
        self.counters.installed.fetch_add(1, Ordering::Relaxed);
        reached!("raft: a snapshot was installed");
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let current = self.disk.current_snapshot.lock();
        let Some((meta, path)) = current.as_ref() else {
            return Ok(None);
        };
        let opened = SnapshotFile::open(path).map_err(Error::io("cannot open", path));
        Ok(Some(Snapshot {
            meta: meta.clone(),
            snapshot: opened.map_err(|e| self.shared.first_error.get_or_record(e.into()))?,
        }))
    }
}
