//! Log and vote, on `raft-log`: write, fdatasync, then the callback. Appends that wait together
//! share one sync, and callbacks complete in order.
//!
//! Invariants:
//! - A vote is durable before `save_vote` returns, an entry before its callback.
//! - What is read at start is durable before it is used, see [`durable_tail`].
//! - The committed log id is written without sync: losing it only means that replay waits for the
//!   leader.

mod codec;
#[cfg(not(sim))]
mod durable_tail;
mod flush_callback;
#[cfg(any(sim, test))]
pub(crate) mod memory;
#[cfg(not(sim))]
mod raft_log_files;
mod raft_log_storage;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::{LogTypes, StoredValue};
use flush_callback::FlushCallback;
use parking_lot::Mutex;
use seqsvr_metrics::Histogram;

use crate::error::Error;
use crate::storage::data_dir::DataDir;
use crate::storage::first_error::FirstError;
use crate::storage::identity::NodeIdentity;
use crate::types::{LogId, Vote};

#[cfg(sim)]
use memory as raft_log_files;
use raft_log_files::RaftLog;
#[cfg(not(sim))]
use raft_log_files::RaftLogWriter;

/// The log of one node. Clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    inner: Arc<LogInner>,
}

pub(crate) struct LogInner {
    log: Mutex<RaftLog<LogTypes>>,
    path: PathBuf,
    first_error: Arc<FirstError>,
    /// Entries below this index are durable here.
    durable_end: Arc<AtomicU64>,
    /// Entries below this index are, or soon will be, in a snapshot that openraft took.
    covered_end: AtomicU64,
    /// End of a snapshot that openraft has not answered yet: it covers entries below this index.
    offered_end: AtomicU64,
    entries_appended: AtomicU64,
    votes_saved: AtomicU64,
    /// Time from an append until it was durable.
    pub(crate) append_durations: Arc<Histogram>,
    _directory: DataDir,
}

/// Vote and end of a log at one moment.
pub(crate) struct LogExtent {
    /// The saved vote.
    pub(crate) vote: Option<Vote>,
    /// One past the last entry that is in the log, was purged from it, or is covered by a received
    /// snapshot.
    pub(crate) end: u64,
}

/// Counters of the log since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogCounters {
    pub(crate) syncs: u64,
    pub(crate) sync_us: u64,
    pub(crate) sync_max_us: u64,
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) votes: u64,
}

impl LogStore {
    /// Opens the log. It drops a torn last record, as a power cut leaves it, and rejects all else
    /// that is not as written.
    pub(crate) fn open(directory: &DataDir, file_bytes: usize) -> Result<LogStore, Error> {
        let path = directory.log_path();
        let log = raft_log_files::open(directory, &path, file_bytes)?;
        let last = log.log_state().last();
        let durable = last.map_or(0, |id| id.0.index + 1);
        check_beginning(&log, &path)?;
        Ok(LogStore {
            inner: Arc::new(LogInner {
                log: Mutex::new(log),
                first_error: Arc::new(FirstError::new(&path)),
                path,
                durable_end: Arc::new(AtomicU64::new(durable)),
                covered_end: AtomicU64::new(0),
                offered_end: AtomicU64::new(0),
                entries_appended: AtomicU64::new(0),
                votes_saved: AtomicU64::new(0),
                append_durations: Arc::default(),
                _directory: directory.clone(),
            }),
        })
    }

    /// Returns whether any log file exists.
    pub(crate) fn exists(directory: &DataDir) -> Result<bool, Error> {
        raft_log_files::exists(&directory.log_path())
    }

    /// Returns whether nothing of Raft was ever written here.
    pub(crate) fn is_pristine(&self) -> bool {
        let log = self.inner.log.lock();
        let state = log.log_state();
        state.vote().is_none() && state.last().is_none() && state.user_data.is_none()
    }

    /// Returns the identity that wrote the log.
    pub(crate) fn identity_stamp(&self) -> Option<NodeIdentity> {
        let log = self.inner.log.lock();
        log.log_state().user_data.as_ref().map(|i| i.0)
    }

    /// Writes the identity into the log, durably.
    pub(crate) async fn set_stamp(&self, identity: NodeIdentity) -> io::Result<()> {
        self.write_durably(|log| log.save_user_data(Some(StoredValue(identity))))
            .await
    }

    /// Returns the id of the last purged entry.
    pub(crate) fn last_purged(&self) -> Option<LogId> {
        self.inner.log.lock().log_state().purged().map(|id| id.0)
    }

    /// Returns the id of the last entry, if there is any.
    pub(crate) fn last_log_id(&self) -> Option<LogId> {
        self.inner.log.lock().log_state().last().map(|id| id.0)
    }

    /// Returns the id of the entry at `index`, if the log holds it.
    pub(crate) fn log_id_at(&self, index: u64) -> io::Result<Option<LogId>> {
        let log = self.inner.log.lock();
        let entry = log.read(index, index.saturating_add(1)).next();
        Ok(entry.transpose()?.map(|(id, _)| id.0))
    }

    /// Returns the index below which entries are durable in this log.
    pub(crate) fn durable_end(&self) -> Arc<AtomicU64> {
        self.inner.durable_end.clone()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns access to the counters that does not keep the log open.
    pub(crate) fn downgrade(&self) -> std::sync::Weak<LogInner> {
        Arc::downgrade(&self.inner)
    }

    async fn write_durably<T>(
        &self,
        write: impl FnOnce(&mut RaftLog<LogTypes>) -> io::Result<T>,
    ) -> io::Result<()> {
        let (done, wait) = FlushCallback::with_receiver(self.inner.first_error.clone());
        self.inner.write(|log| {
            write(log)?;
            log.flush(true, Some(done))
        })?;
        wait.await.map_err(io::Error::other)?
    }
}

impl LogInner {
    /// Hands a write to the log's writer; a failure has the words of [`FirstError`].
    fn write<T>(
        &self,
        write: impl FnOnce(&mut RaftLog<LogTypes>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut log = self.log.lock();
        write(&mut log).map_err(|e| {
            // A writer that died earlier shows as a closed channel; the writer has the cause.
            let cause = log.wait_worker_idle().err();
            self.first_error.get_or_record(cause.unwrap_or(e))
        })
    }

    /// Returns vote and end of the log, both of one moment. An entry counts from the call that
    /// appends it: before it is durable, and so before any caller can learn that it is.
    pub(crate) fn extent(&self) -> LogExtent {
        let log = self.log.lock();
        let state = log.log_state();
        let end = |id: Option<&StoredValue<LogId>>| id.map_or(0, |id| id.0.index + 1);
        let logged = end(state.last()).max(end(state.purged()));
        let covered = self.covered_end.load(Ordering::Acquire);
        let offered = self.offered_end.load(Ordering::Acquire);
        LogExtent {
            vote: state.vote().map(|v| v.0),
            end: logged.max(covered).max(offered),
        }
    }

    /// Notes a snapshot up to this entry before it goes to openraft, one at a time; see
    /// [`crate::rpc::ack_tracker`].
    pub(crate) fn offer_snapshot(&self, last: Option<LogId>) {
        let end = last.map_or(0, |id| id.index + 1);
        self.offered_end.store(end, Ordering::Release);
    }

    /// Notes whether openraft took the snapshot that was offered.
    ///
    /// Invariant: a rejected snapshot covers nothing. Schedule that breaks it: a deposed leader
    /// sends a snapshot up to entry 900, which is rejected. The leader sees that this node, which
    /// has lost its log behind entry 500, acknowledged entry 800; the loss is not found.
    pub(crate) fn settle_snapshot(&self, taken: bool) {
        let end = self.offered_end.load(Ordering::Acquire);
        if taken {
            self.covered_end.fetch_max(end, Ordering::AcqRel);
        }
        self.offered_end.store(0, Ordering::Release);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn counters(&self) -> LogCounters {
        let flush = self.log.lock().stat().flush_metrics;
        LogCounters {
            syncs: flush.sync_batch_count,
            sync_us: flush.sync_us,
            sync_max_us: flush.sync_max_us,
            bytes: flush.write_bytes,
            entries: self.entries_appended.load(Ordering::Relaxed),
            votes: self.votes_saved.load(Ordering::Relaxed),
        }
    }
}

/// Rejects a log that lost files at its beginning: raft-log checks that its files follow each
/// other, not that the first is the first.
fn check_beginning(log: &RaftLog<LogTypes>, path: &Path) -> Result<(), Error> {
    let state = log.log_state();
    let first = state.purged().map_or(0, |id| id.0.index + 1);
    let last = state.last().map_or(0, |id| id.0.index + 1);
    if first < last && log.read(first, first + 1).next().is_none() {
        return Err(Error::damaged(
            path,
            format!("entry {first} and what follows it is missing"),
        ));
    }
    Ok(())
}
