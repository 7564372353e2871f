//! A log on a simulated disk, with the calls of `raft-log` that [`super::LogStore`] makes.
//!
//! Written records and durable records are kept apart. A record is in one of three states: *dirty*
//! (in the page cache only), *lost* (the sync failed, so the kernel marked its page clean and never
//! writes it), *durable*. A process that is killed loses records that its writer has not taken yet.
//! A power cut keeps a prefix of the records: it ends before the first lost record, and anywhere
//! among the dirty ones.
//!
//! `tests.rs` compares it with `raft-log`, call by call.

#![cfg_attr(not(sim), allow(dead_code, reason = "only the tests use it"))]

pub(crate) mod disk;
mod image;
#[cfg(all(test, not(sim)))]
mod tests;

use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::planted;

use super::codec::StoredValue;
use super::flush_callback::FlushCallback;
#[cfg(sim)]
use crate::error::Error;
#[cfg(sim)]
use crate::storage::data_dir::DataDir;
use crate::storage::identity::NodeIdentity;
use crate::types::Vote;
use disk::{LogDisk, PageState, disk_for};
#[cfg(sim)]
use disk::{disk_at, make_durable};
pub(crate) use image::{LogImage, MemoryLogState};
use image::{LogRecord, StoredEntry, StoredLogId, next_index};

/// Returns whether there is a log.
#[cfg(sim)]
pub(super) fn exists(path: &Path) -> Result<bool, Error> {
    Ok(disk_at(path).is_some_and(|disk| disk.lock().user > 0))
}

/// Opens the log, or makes it.
#[cfg(sim)]
pub(super) fn open(
    _: &DataDir,
    path: &Path,
    _: usize,
) -> Result<RaftLog<super::codec::LogTypes>, Error> {
    make_durable(path).map_err(Error::io("cannot sync", path))?;
    Ok(RaftLog::open(path))
}

#[cfg(sim)]
pub(super) use MemoryLog as RaftLog;

/// An open log, in place of `raft_log::RaftLog`.
pub(crate) struct MemoryLog<K> {
    now: LogImage,
    disk: Arc<Mutex<LogDisk>>,
    user: u64,
    kinds: PhantomData<K>,
}

/// Counters of the writer: those that are read.
#[derive(Default)]
pub(crate) struct FlushMetrics {
    pub(crate) sync_batch_count: u64,
    pub(crate) sync_us: u64,
    pub(crate) sync_max_us: u64,
    pub(crate) write_bytes: u64,
}

pub(crate) struct Stat {
    pub(crate) flush_metrics: FlushMetrics,
}

impl<K> MemoryLog<K> {
    /// Opens the log, or makes it.
    pub(crate) fn open(path: &Path) -> MemoryLog<K> {
        let disk = disk_for(path);
        let (now, user) = {
            let mut disk = disk.lock();
            disk.user += 1;
            disk.queue.clear();
            disk.is_flushing = false;
            disk.failure = None;
            disk.cached = disk.written.len();
            (disk.image(), disk.user)
        };
        MemoryLog {
            now,
            disk,
            user,
            kinds: PhantomData,
        }
    }

    fn write(&mut self, record: LogRecord) -> io::Result<()> {
        self.now.check(&record)?;
        self.now.apply(&record);
        let mut disk = self.disk.lock();
        if disk.user == self.user && disk.failure.is_none() {
            disk.written.push_back((PageState::Dirty, record));
        }
        Ok(())
    }

    pub(crate) fn save_user_data(
        &mut self,
        data: Option<StoredValue<NodeIdentity>>,
    ) -> io::Result<()> {
        self.write(LogRecord::UserData(data))
    }

    pub(crate) fn save_vote(&mut self, vote: StoredValue<Vote>) -> io::Result<()> {
        self.write(LogRecord::Vote(vote))
    }

    pub(crate) fn append(
        &mut self,
        entries: impl IntoIterator<Item = StoredEntry>,
    ) -> io::Result<()> {
        let mut entries = entries.into_iter();
        entries.try_for_each(|entry| self.write(LogRecord::Append(Box::new(entry))))
    }

    pub(crate) fn truncate(&mut self, index: u64) -> io::Result<()> {
        let purged = &self.now.state.purged;
        let keep = match index.checked_sub(1) {
            _ if index == next_index(purged.as_ref()) => purged.clone(),
            Some(before) if let Some((id, _)) = self.now.entries.get(&before) => Some(id.clone()),
            _ => return Err(io::Error::other(format!("no entry before {index}"))),
        };
        self.write(LogRecord::Truncate(keep))
    }

    pub(crate) fn purge(&mut self, upto: StoredLogId) -> io::Result<()> {
        match upto.0.index < next_index(self.now.state.purged.as_ref()) {
            true => Ok(()),
            false => self.write(LogRecord::Purge(upto)),
        }
    }

    pub(crate) fn commit(&mut self, id: StoredLogId) -> io::Result<()> {
        self.write(LogRecord::Commit(id))
    }

    /// Queues a sync of the records written before; without `sync` only the callback.
    pub(crate) fn flush(&mut self, sync: bool, callback: Option<FlushCallback>) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if disk.user != self.user || disk.failure.is_some() {
            return Err(io::Error::other("the channel is closed"));
        }
        let mut callback = callback;
        if planted!(AcknowledgeBeforeSync)
            && let Some(done) = callback.take()
        {
            raft_log::Callback::send(done, Ok(()));
        }
        disk.queue.push_back((sync, callback));
        if !disk.is_flushing {
            disk.is_flushing = true;
            tokio::spawn(run_writer(self.disk.clone(), self.user));
        }
        Ok(())
    }

    pub(crate) fn log_state(&self) -> &MemoryLogState {
        &self.now.state
    }

    pub(crate) fn read(
        &self,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = io::Result<StoredEntry>> + use<'_, K> {
        let entries = (from < to).then(|| self.now.entries.range(from..to));
        entries
            .into_iter()
            .flatten()
            .map(|(_, entry)| Ok(entry.clone()))
    }

    /// Returns the error that the writer died of.
    pub(crate) fn wait_worker_idle(&self) -> io::Result<()> {
        match &self.disk.lock().failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        let sync_batch_count = self.disk.lock().syncs;
        let flush_metrics = FlushMetrics {
            sync_batch_count,
            ..FlushMetrics::default()
        };
        Stat { flush_metrics }
    }
}

/// Syncs queued records, one batch after another, as the writer thread of `raft-log` does.
async fn run_writer(disk: Arc<Mutex<LogDisk>>, user: u64) {
    loop {
        let (batch, ms): (Vec<_>, _) = {
            let mut disk = disk.lock();
            if disk.user != user {
                return;
            }
            if disk.queue.is_empty() {
                disk.is_flushing = false;
                return;
            }
            disk.cached = disk.written.len();
            (disk.queue.drain(..).collect(), disk.conduct.ms)
        };
        let mut outcome = Ok(());
        if batch.iter().any(|(sync, _)| *sync) {
            tokio::time::sleep(Duration::from_millis(draw_between(ms))).await;
            let mut disk = disk.lock();
            if disk.user != user {
                return;
            }
            outcome = disk.sync();
            if let Err(e) = &outcome {
                disk.failure = Some((e.kind(), e.to_string()));
                let waiting = std::mem::take(&mut disk.queue);
                drop(disk);
                // Their `FlushCallback`s report that the writer ended.
                drop(waiting);
            }
        }
        for done in batch.into_iter().filter_map(|(_, done)| done) {
            let result = match &outcome {
                Ok(()) => Ok(()),
                Err(_) => Err(io::Error::from_raw_os_error(5)),
            };
            raft_log::Callback::send(done, result);
        }
        if outcome.is_err() {
            return;
        }
    }
}

#[cfg(sim)]
fn draw_between((min, max): (u64, u64)) -> u64 {
    min + seqsvr_core::sim::draw_number("log sync") % (max - min + 1)
}

#[cfg(not(sim))]
fn draw_between((min, _): (u64, u64)) -> u64 {
    min
}
