//! Records of a log, and its content when all of them are read.

use std::collections::BTreeMap;
use std::io;

use super::super::codec::Framed;
use crate::identity::Identity;
use crate::types::{LogId, Payload, Vote};

pub(super) type Id = Framed<LogId>;
pub(super) type Entry = (Id, Framed<Payload>);

/// State of a log without its entries, as `raft_log::RaftLogState`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryLogState {
    pub(crate) user_data: Option<Framed<Identity>>,
    pub(super) vote: Option<Framed<Vote>>,
    pub(super) last: Option<Id>,
    pub(super) committed: Option<Id>,
    pub(super) purged: Option<Id>,
}

impl MemoryLogState {
    pub(crate) fn vote(&self) -> Option<&Framed<Vote>> {
        self.vote.as_ref()
    }

    pub(crate) fn last(&self) -> Option<&Id> {
        self.last.as_ref()
    }

    pub(crate) fn committed(&self) -> Option<&Id> {
        self.committed.as_ref()
    }

    pub(crate) fn purged(&self) -> Option<&Id> {
        self.purged.as_ref()
    }
}

#[derive(Clone, Debug)]
pub(super) enum Record {
    UserData(Option<Framed<Identity>>),
    Vote(Framed<Vote>),
    Append(Box<Entry>),
    /// Keeps the entries up to this one.
    Truncate(Option<Id>),
    Purge(Id),
    Commit(Id),
}

/// Content of a log when all of its records are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogImage {
    pub(crate) state: MemoryLogState,
    pub(crate) entries: BTreeMap<u64, Entry>,
}

pub(super) fn next_index(id: Option<&Id>) -> u64 {
    id.map_or(0, |id| id.0.index + 1)
}

impl LogImage {
    /// Checks what `raft-log` checks before it takes a record.
    pub(super) fn check(&self, record: &Record) -> io::Result<()> {
        let state = &self.state;
        let is_allowed = match record {
            Record::Vote(vote) => Some(vote) >= state.vote.as_ref(),
            Record::Append(entry) => {
                let is_next = entry.0.0.index == next_index(state.last.as_ref());
                Some(&entry.0) > state.last.as_ref() && (state.last.is_none() || is_next)
            }
            Record::Commit(id) => {
                Some(id) >= state.committed.as_ref() && Some(id) <= state.last.as_ref()
            }
            Record::Truncate(keep) => keep.as_ref() >= state.committed.as_ref(),
            Record::UserData(_) | Record::Purge(_) => true,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{record:?} does not follow {state:?}"
            ))),
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        let state = &mut self.state;
        match record {
            Record::UserData(data) => state.user_data.clone_from(data),
            Record::Vote(vote) => state.vote = Some(vote.clone()),
            Record::Append(entry) => {
                state.last = Some(entry.0.clone());
                self.entries.insert(entry.0.0.index, (**entry).clone());
            }
            Record::Truncate(keep) => {
                self.entries.split_off(&next_index(keep.as_ref()));
                if state.last > *keep {
                    state.last.clone_from(keep);
                }
            }
            Record::Purge(upto) => {
                self.entries = self.entries.split_off(&next_index(Some(upto)));
                let purged = Some(upto.clone());
                state.purged = state.purged.take().max(purged.clone());
                state.last = state.last.take().max(purged);
            }
            Record::Commit(id) => state.committed = Some(id.clone()),
        }
    }
}
