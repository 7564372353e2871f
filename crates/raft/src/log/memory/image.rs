//! Records of a log, and its content when all of them are read.

use std::collections::BTreeMap;
use std::io;

use super::super::codec::StoredValue;
use crate::storage::identity::NodeIdentity;
use crate::types::{LogId, Payload, Vote};

pub(super) type StoredLogId = StoredValue<LogId>;
pub(super) type StoredEntry = (StoredLogId, StoredValue<Payload>);

/// State of a log without its entries, as `raft_log::RaftLogState`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryLogState {
    pub(crate) user_data: Option<StoredValue<NodeIdentity>>,
    pub(super) vote: Option<StoredValue<Vote>>,
    pub(super) last: Option<StoredLogId>,
    pub(super) committed: Option<StoredLogId>,
    pub(super) purged: Option<StoredLogId>,
}

impl MemoryLogState {
    pub(crate) fn vote(&self) -> Option<&StoredValue<Vote>> {
        self.vote.as_ref()
    }

    pub(crate) fn last(&self) -> Option<&StoredLogId> {
        self.last.as_ref()
    }

    pub(crate) fn committed(&self) -> Option<&StoredLogId> {
        self.committed.as_ref()
    }

    pub(crate) fn purged(&self) -> Option<&StoredLogId> {
        self.purged.as_ref()
    }
}

#[derive(Clone, Debug)]
pub(super) enum LogRecord {
    UserData(Option<StoredValue<NodeIdentity>>),
    Vote(StoredValue<Vote>),
    Append(Box<StoredEntry>),
    /// Keeps the entries up to this one.
    Truncate(Option<StoredLogId>),
    Purge(StoredLogId),
    Commit(StoredLogId),
}

/// Content of a log when all of its records are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogImage {
    pub(crate) state: MemoryLogState,
    pub(crate) entries: BTreeMap<u64, StoredEntry>,
}

pub(super) fn next_index(id: Option<&StoredLogId>) -> u64 {
    id.map_or(0, |id| id.0.index + 1)
}

impl LogImage {
    /// Checks what `raft-log` checks before it takes a record.
    pub(super) fn check(&self, record: &LogRecord) -> io::Result<()> {
        let state = &self.state;
        let is_allowed = match record {
            LogRecord::Vote(vote) => Some(vote) >= state.vote.as_ref(),
            LogRecord::Append(entry) => {
                let is_next = entry.0.0.index == next_index(state.last.as_ref());
                Some(&entry.0) > state.last.as_ref() && (state.last.is_none() || is_next)
            }
            LogRecord::Commit(id) => {
                Some(id) >= state.committed.as_ref() && Some(id) <= state.last.as_ref()
            }
            LogRecord::Truncate(keep) => keep.as_ref() >= state.committed.as_ref(),
            LogRecord::UserData(_) | LogRecord::Purge(_) => true,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{record:?} does not follow {state:?}"
            ))),
        }
    }

    pub(super) fn apply(&mut self, record: &LogRecord) {
        let state = &mut self.state;
        match record {
            LogRecord::UserData(data) => state.user_data.clone_from(data),
            LogRecord::Vote(vote) => state.vote = Some(vote.clone()),
            LogRecord::Append(entry) => {
                state.last = Some(entry.0.clone());
                self.entries.insert(entry.0.0.index, (**entry).clone());
            }
            LogRecord::Truncate(keep) => {
                self.entries.split_off(&next_index(keep.as_ref()));
                if state.last > *keep {
                    state.last.clone_from(keep);
                }
            }
            LogRecord::Purge(upto) => {
                self.entries = self.entries.split_off(&next_index(Some(upto)));
                let purged = Some(upto.clone());
                state.purged = state.purged.take().max(purged.clone());
                state.last = state.last.take().max(purged);
            }
            LogRecord::Commit(id) => state.committed = Some(id.clone()),
        }
    }
}
