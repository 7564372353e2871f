//! The log as openraft calls it.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::Ordering;
use std::time::Instant;

use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};

use seqsvr_core::{planted, reached};

use super::LogStore;
use super::codec::StoredValue;
use super::flush_callback::{FlushCallback, FlushWaiter};
#[cfg(not(sim))]
use super::raft_log_files::RaftLogWriter;
use crate::error::Error;
use crate::limits::APPEND_BYTES_MAX;
use crate::record;
use crate::types::{Entry, LogId, Payload, TypeConfig, Vote};

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let from = match range.start_bound() {
            Bound::Included(i) => *i,
            Bound::Excluded(i) => i.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(i) => i.saturating_add(1),
            Bound::Excluded(i) => *i,
            Bound::Unbounded => u64::MAX,
        };
        if from >= to {
            return Ok(Vec::new());
        }
        let log = self.inner.log.lock();
        let entry = |(id, payload): (StoredValue<LogId>, StoredValue<Payload>)| Entry {
            log_id: id.0,
            payload: payload.0,
        };
        let entries: io::Result<Vec<Entry>> =
            log.read(from, to).map(|item| item.map(entry)).collect();
        entries.map_err(|e| Error::reading(&self.inner.path)(e).into())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let log = self.inner.log.lock();
        let mut entries = Vec::new();
        let mut bytes = 0;
        for item in log.read(start, end) {
            let (id, payload) = item.map_err(Error::reading(&self.inner.path))?;
            // Two entries fit, however long they are.
            if end - start > 2 {
                bytes += record::encoded_len(&payload.0);
            }
            entries.push(Entry {
                log_id: id.0,
                payload: payload.0,
            });
            if bytes >= APPEND_BYTES_MAX {
                break;
            }
        }
        Ok(entries)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.inner.log.lock().log_state().vote().map(|v| v.0))
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let log = self.inner.log.lock();
        let state = log.log_state();
        Ok(LogState {
            last_purged_log_id: state.purged().map(|id| id.0),
            last_log_id: state.last().map(|id| id.0),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        if planted!(VoteBeforeSync) {
            self.inner.write(|log| log.save_vote(StoredValue(*vote)))?;
            return Ok(());
        }
        self.write_durably(|log| log.save_vote(StoredValue(*vote)))
            .await?;
        self.inner.votes_saved.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let Some(committed) = committed.map(StoredValue) else {
            return Ok(());
        };
        self.inner.write(|log| {
            let state = log.log_state();
            // An installed snapshot may be ahead of the log; the snapshot itself then gives the
            // committed entry.
            if state.last() < Some(&committed) || state.committed() >= Some(&committed) {
                return Ok(());
            }
            log.commit(committed)?;
            let callback = FlushCallback {
                waiter: None,
                first_error: self.inner.first_error.clone(),
            };
            log.flush(false, Some(callback))
        })
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.inner.log.lock().log_state().committed().map(|id| id.0))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let mut count = 0;
        let entries = entries.into_iter().inspect(|_| count += 1);
        let begun = (Instant::now(), self.inner.append_durations.clone());
        self.inner.write(|log| {
            log.append(entries.map(|e| (StoredValue(e.log_id), StoredValue(e.payload))))?;
            let waiter = FlushWaiter::Append {
                flushed: callback,
                durable: self.inner.durable_end.clone(),
                end: log.log_state().last().map_or(0, |id| id.0.index + 1),
                begun,
            };
            let callback = FlushCallback {
                waiter: Some(waiter),
                first_error: self.inner.first_error.clone(),
            };
            log.flush(true, Some(callback))
        })?;
        self.inner
            .entries_appended
            .fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let next = last.map_or(0, |id| id.index + 1);
        self.write_durably(|log| match log.log_state().last() {
            Some(last) if last.0.index >= next => log.truncate(next).map(drop),
            _ => Ok(()),
        })
        .await?;
        reached!("raft: the log was truncated");
        // All writes queued before have completed, so none raises it again to entries that are
        // gone.
        self.inner.durable_end.fetch_min(next, Ordering::AcqRel);
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> io::Result<()> {
        self.write_durably(|log| log.purge(StoredValue(upto))).await
    }
}
