//! The worker rows of the state, with indexes by which a worker is found.
//!
//! Invariant: the indexes are those of the rows. They are never stored; a state that is rebuilt
//! from its rows chooses the same worker as every other replica. So every change of a row passes
//! through here. An acquisition looks at a few rows of an index, however many workers a family has:
//! an entry that takes long to apply delays the leases of all AllocSvrs.

use std::cmp::Reverse;

use xxhash_rust::xxh3::xxh3_64;

use super::super::{PagedMap, WorkerRow};
use crate::ids::{FamilyId, Nonce, WorkerId, WorkerKey};

/// Family, whether the worker is held, first tick after its grant, worker.
type UntilKey = (FamilyId, bool, u64, WorkerId);
/// Family, hash of the holder's name, whether the worker is free, first tick after the grant from
/// the last one down, worker.
type HolderKey = (FamilyId, u64, bool, Reverse<u64>, WorkerId);

/// All workers ever granted, except numbers that are never granted again. Its copies are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::state) struct WorkerRows {
    rows: PagedMap<WorkerKey, WorkerRow>,
    by_until: PagedMap<UntilKey, ()>,
    by_holder: PagedMap<HolderKey, ()>,
    by_nonce: PagedMap<(FamilyId, Nonce), WorkerId>,
}

impl WorkerRows {
    pub(in crate::state) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in crate::state) fn get(&self, key: &WorkerKey) -> Option<&WorkerRow> {
        self.rows.get(key)
    }

    pub(in crate::state) fn iter(&self) -> impl Iterator<Item = (&WorkerKey, &WorkerRow)> {
        self.rows.iter()
    }

    /// Sets a row.
    pub(in crate::state) fn insert(&mut self, key: WorkerKey, row: WorkerRow) {
        self.remove(&key);
        self.by_until.insert(until_key(key, &row), ());
        self.by_holder.insert(holder_key(key, &row), ());
        // 0 is none, and not unique.
        if row.nonce != Nonce(0) {
            self.by_nonce.insert((key.family, row.nonce), key.worker);
        }
        self.rows.insert(key, row);
    }

    /// Returns the rows without the nonces of their acquisitions.
    pub(in crate::state) fn without_nonces(&self) -> WorkerRows {
        let mut all = WorkerRows::default();
        for (key, row) in self.iter() {
            let nonce = Nonce(0);
            all.insert(
                *key,
                WorkerRow {
                    nonce,
                    ..row.clone()
                },
            );
        }
        all
    }

    /// Removes a row.
    pub(super) fn remove(&mut self, key: &WorkerKey) {
        let Some(old) = self.rows.remove(key) else {
            return;
        };
        self.by_until.remove(&until_key(*key, &old));
        self.by_holder.remove(&holder_key(*key, &old));
        self.by_nonce.remove(&(key.family, old.nonce));
    }

    /// Returns the rows of a family, from a worker on.
    pub(super) fn of_family(
        &self,
        family: FamilyId,
        worker: WorkerId,
    ) -> impl Iterator<Item = (WorkerId, &WorkerRow)> {
        let rows = self.rows.iter_from(WorkerKey { family, worker });
        let rows = rows.take_while(move |(key, _)| key.family == family);
        rows.map(|(key, row)| (key.worker, row))
    }

    /// Returns the worker that was acquired with a nonce.
    pub(super) fn find_nonce(&self, family: FamilyId, nonce: Nonce) -> Option<WorkerKey> {
        let worker = *self.by_nonce.get(&(family, nonce))?;
        Some(WorkerKey { family, worker })
    }

    /// Returns the ends of the grants of all workers that are held, or of those that are not, in
    /// order.
    pub(super) fn by_until(
        &self,
        family: FamilyId,
        is_held: bool,
    ) -> impl Iterator<Item = (u64, WorkerId)> {
        let first = (family, is_held, 0, WorkerId(0));
        let of_kind = self.by_until.iter_from(first).map(|(key, ())| *key);
        of_kind
            .take_while(move |key| (key.0, key.1) == (family, is_held))
            .map(|(_, _, until, worker)| (until, worker))
    }

    /// Returns the workers that a name holds, or those that it held last, from the last end of a
    /// grant down. Apart, so that a name that acquires and releases all day is no long walk.
    pub(super) fn of_holder<'a>(
        &'a self,
        family: FamilyId,
        holder: &'a str,
        is_held: bool,
    ) -> impl Iterator<Item = (WorkerId, &'a WorkerRow)> {
        let hash = xxh3_64(holder.as_bytes());
        let first = (family, hash, !is_held, Reverse(u64::MAX), WorkerId(0));
        let keys = self.by_holder.iter_from(first).map(|(key, ())| *key);
        let keys = keys.take_while(move |key| (key.0, key.1, key.2) == (family, hash, !is_held));
        let rows = keys.filter_map(move |(_, _, _, _, worker)| {
            let row = self.rows.get(&WorkerKey { family, worker })?;
            Some((worker, row))
        });
        rows.filter(move |(_, row)| row.holder == holder)
    }
}

fn until_key(key: WorkerKey, row: &WorkerRow) -> UntilKey {
    (key.family, row.is_held, row.until(), key.worker)
}

fn holder_key(key: WorkerKey, row: &WorkerRow) -> HolderKey {
    let hash = xxh3_64(row.holder.as_bytes());
    (
        key.family,
        hash,
        !row.is_held,
        Reverse(row.until()),
        key.worker,
    )
}
