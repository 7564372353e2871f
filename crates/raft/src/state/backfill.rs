//! Stores the rows of an installed snapshot while later entries are applied.
//!
//! Invariant: an install keeps openraft waiting for about the time of a rename, however many
//! sections there are. Schedule that breaks it (openraft 0.10.0-alpha.37): a replacement installs 5
//! million rows, which takes a minute. The purge of its log waits for the install
//! (`openraft:engine/command.rs`, `condition`). Every later command waits behind the purge, also
//! the one that saves a vote. The leader dies, and no leader is elected before the install ends. So
//! a snapshot is read, checked, synced and hashed before openraft gets it
//! ([`SnapshotFile::into_prepared`]), and its rows are stored here after the install.
//!
//! Invariant: a row is never stored over a newer one of the same key. Schedule that breaks it: a
//! part is read from memory; an entry changes one of its rows and is stored; then the part is
//! stored. So one lock (`RowBackfill::lock_storing`) covers both reading from memory and storing,
//! here and for entries.
//!
//! If the process ends before the last part, the rows have another digest than the one stored
//! beside them. The next start sets them aside and rebuilds the state from snapshot and log, as
//! after any torn step.
//!
//! [`SnapshotFile::into_prepared`]: crate::state::snapshot::SnapshotFile::into_prepared

use std::sync::Weak;

use parking_lot::MutexGuard;
use seqsvr_core::state::RowKey;

use crate::error::Error;
use crate::state::applied_state::{AppliedState, SharedState};
use crate::state::state_disk::StateDisk;

/// Rows of one part. An entry waits for at most one part.
pub(crate) const ROWS_PER_PART: usize = 1_000;

/// Stores all rows of the state that replaced `old`, until a newer install takes over or the node
/// is closed.
pub(crate) fn run_backfill(
    disk: &Weak<StateDisk>,
    shared: &Weak<SharedState>,
    install: u64,
    old: AppliedState,
) {
    let stored = store_parts(disk, shared, install, old, ROWS_PER_PART, usize::MAX);
    if let (Err(error), Some(shared)) = (stored, shared.upgrade()) {
        tracing::error!(%error, "rows of the installed snapshot not stored");
        shared.first_error.get_or_record(error.into());
    }
}

/// Stores the rows in parts. Ends early after `parts`, like a process that is killed.
pub(crate) fn store_parts(
    disk: &Weak<StateDisk>,
    shared: &Weak<SharedState>,
    install: u64,
    old: AppliedState,
    part_rows: usize,
    parts: usize,
) -> Result<(), Error> {
    let Some((keys, gone)) = keys_to_store(disk, shared, old) else {
        return Ok(());
    };
    let mut keys = keys.iter().map(|(key, _)| *key).chain(gone);
    for _ in 0..parts {
        let part: Vec<RowKey> = keys.by_ref().take(part_rows).collect();
        // Not held between the parts, so that a node that is closed releases its directory.
        let (Some(disk), Some(shared)) = (disk.upgrade(), shared.upgrade()) else {
            return Ok(());
        };
        if !disk.backfill.is_newest(install) {
            return Ok(());
        }
        let is_last = part.is_empty();
        let storing = disk.backfill.lock_storing();
        let batch = {
            let applied = shared.applied.read();
            match is_last {
                true => disk.rows.prepare_batch(&applied, []),
                false => disk.rows.prepare_part(&applied, part),
            }
        };
        let batch =
            batch.map_err(|e| Error::io("cannot encode", &disk.directory.state_path())(e))?;
        disk.rows.commit_batch(batch)?;
        if is_last {
            let mut work = disk.backfill.work.lock();
            if work.install == install {
                work.is_pending = false;
                work.gone.clear();
            }
            return Ok(());
        }
        // Entries that wait go first.
        MutexGuard::unlock_fair(storing);
    }
    Ok(())
}

type RowKeys = seqsvr_core::state::PagedMap<RowKey, crate::state::digest::RowsDigest>;

/// Returns the keys of the state in memory, and those that may be on the disk without being in it.
fn keys_to_store(
    disk: &Weak<StateDisk>,
    shared: &Weak<SharedState>,
    old: AppliedState,
) -> Option<(RowKeys, Vec<RowKey>)> {
    let keys = shared.upgrade()?.applied.read().row_keys();
    let old_keys = old.row_keys();
    drop(old);
    let gone = old_keys.iter().map(|(key, _)| *key);
    let gone: Vec<RowKey> = gone.filter(|key| !keys.contains_key(key)).collect();
    let disk = disk.upgrade()?;
    let mut work = disk.backfill.work.lock();
    work.gone.extend(gone);
    let gone = work.gone.iter().copied().collect();
    Some((keys, gone))
}
