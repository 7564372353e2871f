//! openraft's state machine over [`Applied`], [`Rows`] and snapshot files.
//!
//! Order within a step: memory (one write lock for the step), then sled, then watchers and callers.
//! Sled may lose the step; memory is rebuilt from snapshot and log. Order of a snapshot: the file
//! is durable under its final name before openraft gets it, because openraft purges the log next.
//! The rows of an installed snapshot are stored afterwards, see [`crate::backfill`].

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use parking_lot::Mutex;
use seqsvr_core::reached;
use seqsvr_proto::os;

use crate::applied::{Applied, Shared};
use crate::backfill::{self, Backfill};
use crate::builder::Builder;
use crate::directory::{self, Directory};
use crate::error::Error;
use crate::rows::Rows;
use crate::snapshot::{self, SnapshotFile};
use crate::turns::{BuildTurn, SnapshotTurns};
use crate::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};

pub(crate) type Snapshot = openraft::storage::Snapshot<
    crate::types::CommittedLeaderId,
    u64,
    crate::types::Peer,
    SnapshotFile,
>;

/// Most entries of one step.
const STEP_MAX: usize = 64;

/// Snapshots made and received since the start.
#[derive(Default)]
pub(crate) struct SnapshotCounters {
    pub(crate) built: AtomicU64,
    pub(crate) installed: AtomicU64,
}

/// The state machine of one node.
#[derive(Clone)]
pub(crate) struct Machine {
    shared: Arc<Shared>,
    disk: Arc<Disk>,
    counters: Arc<SnapshotCounters>,
    turns: SnapshotTurns,
    /// Entries behind the newest snapshot after which another is built, even while one is being
    /// sent.
    hold_entries: u64,
    /// Whether the newest snapshot is damaged, so that the next one is built in any case.
    rebuild: Arc<AtomicBool>,
}

pub(crate) struct Disk {
    pub(crate) rows: Rows,
    pub(crate) backfill: Backfill,
    /// The newest snapshot.
    current: Mutex<Option<(SnapshotMeta, PathBuf)>>,
    /// Index of its last entry.
    newest: Arc<AtomicU64>,
    pub(crate) directory: Directory,
}

impl Machine {
    pub(crate) fn new(
        directory: &Directory,
        rows: Rows,
        applied: Applied,
        newest: Option<SnapshotMeta>,
        hold_entries: u64,
    ) -> Machine {
        let index = newest.as_ref().map_or(0, index_of);
        let current = newest.map(|meta| {
            let path = snapshot::path_of(directory, &meta);
            (meta, path)
        });
        Machine {
            shared: Arc::new(Shared::new(applied)),
            disk: Arc::new(Disk {
                rows,
                backfill: Backfill::default(),
                current: Mutex::new(current),
                newest: Arc::new(AtomicU64::new(index)),
                directory: directory.clone(),
            }),
            counters: Arc::default(),
            turns: SnapshotTurns::default(),
            hold_entries,
            rebuild: Arc::default(),
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Returns the turns of building and sending snapshots.
    pub(crate) fn turns(&self) -> SnapshotTurns {
        self.turns.clone()
    }

    /// Lets the next snapshot be built even while one is being sent.
    pub(crate) fn rebuild_snapshot(&self) {
        self.rebuild.store(true, Ordering::Release);
    }

    fn builder(&self, turn: BuildTurn) -> Builder {
        let applied = self.shared.applied.read();
        Builder::new(&applied, &self.disk, &self.counters, turn)
    }

    pub(crate) fn counters(&self) -> Arc<SnapshotCounters> {
        self.counters.clone()
    }

    /// Returns the index of the last entry in the newest snapshot.
    pub(crate) fn newest(&self) -> Arc<AtomicU64> {
        self.disk.newest.clone()
    }

    /// Reads the newest snapshot from the disk and checks all of it.
    pub(crate) fn verify_newest(&self) -> Result<(), Error> {
        let (meta, snapshot) = {
            let current = self.disk.current.lock();
            let Some((meta, path)) = current.as_ref() else {
                return Ok(());
            };
            let file = SnapshotFile::open(path).map_err(Error::io("cannot open", path))?;
            (meta.clone(), file)
        };
        snapshot::verify(&snapshot, &meta)
    }

    fn install(&self, meta: &SnapshotMeta, received: SnapshotFile) -> Result<(), Error> {
        let (received, header, new) = match received.take_content() {
            Ok(prepared) => prepared,
            // This node's own snapshot at the start; no leader waits yet.
            Err(unread) => unread.prepared()?.take_content().map_err(|unread| {
                Error::damaged(&unread.path, "it has no content after it was read")
            })?,
        };
        if header != *meta {
            return Err(Error::damaged(
                &received.path,
                "its header is not what its sender announced",
            ));
        }
        let path = snapshot::path_of(&self.disk.directory, meta);
        if received.path != path {
            directory::publish(&received.path, &path)?;
        }
        let install = self.disk.backfill.begin();
        let old = self.replace(new);
        self.shared.announce();
        self.disk.published(meta, path)?;
        let (disk, shared) = (Arc::downgrade(&self.disk), Arc::downgrade(&self.shared));
        os::spawn_blocking(move || backfill::run(&disk, &shared, install, old));
        Ok(())
    }

    /// Replaces the state in memory. Returns the old one: dropping it takes longer the more
    /// sections it has, so it must not be dropped under the lock.
    pub(crate) fn replace(&self, mut new: Applied) -> Applied {
        // No entry is between its step in memory and its step on the disk.
        let _storing = self.disk.backfill.storing();
        let mut applied = self.shared.applied.write();
        new.pace = std::mem::take(&mut applied.pace);
        new.pace.restart();
        std::mem::replace(&mut *applied, new)
    }

    /// Stores this number of parts of the rows after [`Machine::replace`], like a process that is
    /// killed then.
    #[cfg(test)]
    pub(crate) fn store_rows(&self, old: Applied, part_rows: usize, parts: usize) {
        let (disk, shared) = (Arc::downgrade(&self.disk), Arc::downgrade(&self.shared));
        let install = self.disk.backfill.begin();
        backfill::store(&disk, &shared, install, old, part_rows, parts).unwrap();
    }

    /// Returns the remaining work to store an installed snapshot.
    #[cfg(test)]
    pub(crate) fn backfill(&self) -> &backfill::Backfill {
        &self.disk.backfill
    }
}

fn index_of(meta: &SnapshotMeta) -> u64 {
    meta.last_log_id.map_or(0, |id| id.index)
}

impl Disk {
    /// Makes a durable snapshot the current one, unless a newer one was installed before that.
    pub(crate) fn published(&self, meta: &SnapshotMeta, path: PathBuf) -> Result<(), Error> {
        let mut current = self.current.lock();
        if current
            .as_ref()
            .is_none_or(|(c, _)| c.last_log_id <= meta.last_log_id)
        {
            snapshot::remove_older(&self.directory, &path)?;
            self.newest.store(index_of(meta), Ordering::Release);
            *current = Some((meta.clone(), path));
        }
        Ok(())
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = self.shared.applied.read();
        Ok((applied.last_applied, applied.membership.clone()))
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + Send,
    {
        let mut steps = entries.ready_chunks(STEP_MAX);
        while let Some(items) = steps.next().await {
            let mut touched = BTreeSet::new();
            let mut answers = Vec::new();
            self.disk.backfill.check()?;
            let storing = self.disk.backfill.storing();
            let step = {
                let mut applied = self.shared.applied.write();
                for item in items {
                    let (entry, responder) = item?;
                    let replies = applied.apply(&entry, &mut touched)?;
                    let checkpoints = &self.shared.checkpoints;
                    checkpoints.note(entry.log_id.index, applied.digest());
                    answers.extend(responder.map(|r| (r, replies)));
                }
                self.disk.rows.write(&applied, touched)?
            };
            self.disk.rows.commit(step)?;
            drop(storing);
            self.shared.announce();
            for (responder, replies) in answers {
                responder.send(replies);
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        let newest = self.disk.newest.load(Ordering::Acquire);
        let entries = self.shared.applied.read().index().saturating_sub(newest);
        let must = force || entries >= self.hold_entries || self.rebuild.load(Ordering::Acquire);
        let turn = match must {
            true => self.turns.build(),
            false => self.turns.try_build()?,
        };
        self.rebuild.store(false, Ordering::Release);
        Some(self.builder(turn))
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.builder(self.turns.build())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotFile,
    ) -> io::Result<()> {
        let (machine, meta) = (self.clone(), meta.clone());
        blocking(move || machine.install(&meta, snapshot)).await?;
        self.counters.installed.fetch_add(1, Ordering::Relaxed);
        reached!("raft: a snapshot was installed");
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let current = self.disk.current.lock();
        let Some((meta, path)) = current.as_ref() else {
            return Ok(None);
        };
        Ok(Some(Snapshot {
            meta: meta.clone(),
            snapshot: SnapshotFile::open(path)?,
        }))
    }
}

/// Runs blocking work, away from the runtime.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> io::Result<T> {
    let done = os::spawn_blocking(work).await;
    done.map_err(io::Error::other)?.map_err(io::Error::from)
}
