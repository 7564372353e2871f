//! Applied state of this node, with its last entry and its membership.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::Instant;

use openraft::EntryPayload;
use parking_lot::RwLock;
use seqsvr_core::command::Reply;
use seqsvr_core::state::namespace_growth::{BatchBaseline, NamespaceGrowth};
use seqsvr_core::state::{PagedMap, RowKey, State};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::state::checkpoints::StateCheckpoints;
use crate::state::digest::RowsDigest;
use crate::storage::first_error::FirstError;
use crate::storage::usage_report::UsageReport;
use crate::types::{Entry, LogId, SnapshotMeta, StoredMembership};

/// State with the position of its last entry. Invariant: `digest` is the sum of `digests`, which
/// hold one digest a row of `state`.
///
/// Applying an entry takes the lock around it ([`SharedState`]), and the runtime waits for that
/// lock. So nothing that takes longer with more sections happens under the lock. A caller that
/// needs all rows copies `state` or the keys, which costs one pointer a page. The old value is
/// dropped after the lock.
#[derive(Default)]
pub(crate) struct AppliedState {
    pub(crate) state: State,
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    digests: PagedMap<RowKey, RowsDigest>,
    digest: RowsDigest,
    pub(crate) growth_meter: GrowthMeter,
}

/// Rate at which the applied entries added numbers: information for people, no part of the state.
pub(crate) struct GrowthMeter {
    growth: NamespaceGrowth,
    since: Instant,
    /// Last entry of the log at the start. It and the entries before it say nothing about the time
    /// since.
    last_replayed: Option<LogId>,
}

impl Default for GrowthMeter {
    fn default() -> GrowthMeter {
        GrowthMeter {
            growth: NamespaceGrowth::default(),
            since: Instant::now(),
            last_replayed: None,
        }
    }
}

impl GrowthMeter {
    /// Counts entries that come after the last one of the log at the start.
    pub(crate) fn starting_after(last_replayed: Option<LogId>) -> GrowthMeter {
        GrowthMeter {
            last_replayed,
            ..GrowthMeter::default()
        }
    }

    /// Starts again: a snapshot replaced entries, and the numbers that they added are unknown.
    pub(crate) fn restart(&mut self) {
        self.growth.restart();
        self.since = Instant::now();
    }

    /// Returns what a backup made at `taken_at` (seconds since 1970) says about it.
    pub(crate) fn usage_report(&self, taken_at: u64) -> UsageReport {
        UsageReport {
            taken_at,
            watched_secs: self.since.elapsed().as_secs(),
            added: self.growth.totals(),
            busiest_minute: self.growth.peaks(),
        }
    }
}

impl AppliedState {
    pub(crate) fn new(
        state: State,
        last_applied: Option<LogId>,
        membership: StoredMembership,
    ) -> io::Result<AppliedState> {
        let mut digest = RowsDigest::default();
        let mut digests = PagedMap::default();
        for (key, row) in state.rows() {
            let one = RowsDigest::of_row(&key, &row)?;
            digest.add(one);
            digests.insert(key, one);
        }
        Ok(AppliedState {
            state,
            last_applied,
            membership,
            digests,
            digest,
            growth_meter: GrowthMeter::default(),
        })
    }

    /// Applies one entry; adds the rows it touched.
    pub(crate) fn apply_entry(
        &mut self,
        entry: &Entry,
        touched: &mut BTreeSet<RowKey>,
    ) -> io::Result<Vec<Reply>> {
        let mut rows = BTreeSet::new();
        let replies = match &entry.payload {
            EntryPayload::Blank => Vec::new(),
            EntryPayload::Normal(p) => {
                let before = BatchBaseline::read(&p.0, &self.state);
                let term = entry.log_id.leader_id.term;
                let replies = self.state.apply(term, &p.0, &mut rows);
                if Some(entry.log_id) > self.growth_meter.last_replayed {
                    let at = self.growth_meter.since.elapsed();
                    self.growth_meter
                        .growth
                        .add(before, &replies, &self.state, at);
                }
                replies
            }
            EntryPayload::Membership(m) => {
                self.membership = StoredMembership::new(Some(entry.log_id), m.clone());
                Vec::new()
            }
        };
        // Done by the entry that makes the member, not by another one: from that entry on, every
        // replica counts the id as used. Raising the level covers the members of that moment.
        if let Some(highest) = self
            .membership
            .membership()
            .nodes()
            .map(|(id, _)| *id)
            .max()
        {
            self.state.record_store_id(highest, &mut rows);
        }
        for key in &rows {
            let now = match self.state.row(*key) {
                Some(row) => self.digests.insert(*key, {
                    let one = RowsDigest::of_row(key, &row)?;
                    self.digest.add(one);
                    one
                }),
                None => self.digests.remove(key),
            };
            if let Some(before) = now {
                self.digest.remove(before);
            }
        }
        touched.append(&mut rows);
        self.last_applied = Some(entry.log_id);
        Ok(replies)
    }

    /// Returns the index of the last applied entry; 0 before any.
    pub(crate) fn last_index(&self) -> u64 {
        self.last_applied.map_or(0, |id| id.index)
    }

    pub(crate) fn digest(&self) -> RowsDigest {
        self.digest
    }

    /// Returns the keys of all rows, as a copy that is cheap.
    pub(crate) fn row_keys(&self) -> PagedMap<RowKey, RowsDigest> {
        self.digests.clone()
    }

    pub(crate) fn rows_meta(&self) -> RowsMeta {
        RowsMeta {
            last_applied: self.last_applied,
            membership: self.membership.clone(),
            digest: self.digest,
        }
    }

    pub(crate) fn snapshot_meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.last_applied,
            last_membership: self.membership.clone(),
        }
    }
}

/// Values stored with the rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct RowsMeta {
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    pub(crate) digest: RowsDigest,
}

/// Position up to which this node has applied entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedPosition {
    /// Index of the last applied entry; 0 before any.
    pub index: u64,
    /// Its term; 0 before any.
    pub term: u64,
    /// Version of the routing table in the state.
    pub table_version: u64,
}

/// Applied state as the whole process reads it. `progress` never runs ahead of `applied`: it is
/// sent after the write lock is released. So a reader that saw an index reads a state of at least
/// that index.
pub(crate) struct SharedState {
    pub(crate) applied: RwLock<AppliedState>,
    pub(crate) progress: watch::Sender<AppliedPosition>,
    pub(crate) checkpoints: StateCheckpoints,
    /// First failure of the state machine, which ends the node.
    pub(crate) first_error: FirstError,
}

impl SharedState {
    /// Shares the state whose rows are in `rows`.
    pub(crate) fn new(applied: AppliedState, rows: &Path) -> SharedState {
        let progress = watch::Sender::new(position_of(&applied));
        SharedState {
            applied: RwLock::new(applied),
            progress,
            checkpoints: StateCheckpoints::default(),
            first_error: FirstError::new(rows),
        }
    }

    /// Sends the current position of the state to all watchers.
    pub(crate) fn announce_position(&self) {
        let now = position_of(&self.applied.read());
        self.progress.send_replace(now);
    }
}

fn position_of(applied: &AppliedState) -> AppliedPosition {
    AppliedPosition {
        index: applied.last_index(),
        term: applied.last_applied.map_or(0, |id| id.leader_id.term),
        table_version: applied.state.table_version(),
    }
}
