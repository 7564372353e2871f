//! The state's rows on sled: a shortcut for a restart, not the truth. Snapshot and log are.
//!
//! One atomic batch a step carries the rows touched, last applied id, membership and the digest
//! over all rows. Nothing is flushed on the way. Invariant: rows are used after a restart only if
//! sled opens, every row reads back, the digest over them matches, and the last applied id is in
//! the durable log or is the newest snapshot's. Schedule that needs the last rule: a leader applies
//! an entry that two followers made durable but its own log did not yet; the power goes off; sled
//! kept the row, the log lost the entry. Otherwise the directory is quarantined and the state is
//! rebuilt.
//!
//! Stored with them is a proof about the *log*: the newest entry that was applied when it was
//! already durable in this node's own log. Raft never takes such an entry back, so a log without it
//! is an older copy or lost its end. A voter that continued from it would have lost what it
//! acknowledged. Schedule: three voters, entry 900 is acknowledged by nodes 1 and 2; node 2's log
//! directory is replaced with a copy made at entry 500; node 1 dies; nodes 2 and 3 elect a leader
//! that never saw entry 900.
//!
//! A write that fails, in sled's own threads or by a panic of it, is an error of the next step: the
//! node stops, and after a restart its log supplies what the rows lost.
//!
//! Values stay under 4 KiB: sled keeps larger ones in files it never syncs.
#![cfg_attr(
    sim,
    allow(unreachable_patterns, reason = "rows in memory have one kind of error")
)]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqsvr_core::state::{RowKey, StateBuilder};
use seqsvr_net::is_out_of_descriptors;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::record;
use crate::state::applied_state::{AppliedState, RowsMeta};
#[cfg(sim)]
use crate::state::memory_rows as sled;
use crate::state::quarantine::{quarantine, remove_unfinished_sled_snapshot};
use crate::state::sled_guard::{SledHandle, catch_sled_panic, recover_os_error};
use crate::storage::data_dir::DataDir;
use crate::types::LogId;

const SLED_CACHE_BYTES: u64 = 32 << 20;
const META_KEY: &[u8] = b"m";
const PROOF_KEY: &[u8] = b"p";
const ROW_KEY_PREFIX: u8 = b'r';

/// An entry that is in the log of the directory that wrote this, unless that log was tampered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DurabilityProof {
    /// Incarnation of the directory.
    pub(crate) incarnation: u64,
    /// The entry: applied, and durable in that log.
    pub(crate) entry: LogId,
}

/// Content of loaded rows.
pub(crate) struct LoadedRows {
    pub(crate) applied: AppliedState,
    pub(crate) proven: Option<DurabilityProof>,
}

/// Rows on disk.
pub(crate) struct SledRows {
    db: SledHandle,
    incarnation: u64,
    /// Entries below this index are durable in the log.
    durable_end: Arc<AtomicU64>,
    directory: DataDir,
}

impl SledRows {
    /// Opens the rows and loads their content, if it can be used: `judge` returns why not, or
    /// refuses to start because of what they prove. `durable_end` is the log's.
    pub(crate) fn open(
        directory: &DataDir,
        incarnation: u64,
        durable_end: Arc<AtomicU64>,
        judge: impl Fn(&LoadedRows) -> Result<Option<String>, Error>,
    ) -> Result<(SledRows, AppliedState), Error> {
        let path = directory.state_path();
        let rows = |db| SledRows {
            db,
            incarnation,
            durable_end,
            directory: directory.clone(),
        };
        if path.exists() {
            if path.is_dir() {
                remove_unfinished_sled_snapshot(&path)?;
            }
            match open_and_load(&path) {
                Ok((db, loaded)) => match judge(&loaded)? {
                    None => return Ok((rows(db), loaded.applied)),
                    Some(why) => {
                        seqsvr_core::reached!("raft: rows were not borne out by the log");
                        drop(db);
                        quarantine(directory, &why)?;
                    }
                },
                Err(RowsError::Refused(e)) => return Err(Error::io("cannot open", &path)(e)),
                Err(RowsError::Locked) => return Err(Error::Locked(directory.root().to_owned())),
                Err(RowsError::Damaged(what)) => {
                    seqsvr_core::reached!("raft: rows were damaged");
                    quarantine(directory, &what)?;
                }
            }
        }
        let made = catch_sled_panic(|| sled_config(&path).open());
        let db = made.map_err(Error::io("cannot create", &path))?;
        let db = SledHandle::new(db, &path);
        Ok((rows(db), AppliedState::default()))
    }

    /// Stores a step: the rows of `keys` as they are now, and all other values of the step.
    pub(crate) fn prepare_batch(
        &self,
        applied: &AppliedState,
        keys: impl IntoIterator<Item = RowKey>,
    ) -> io::Result<RowBatch> {
        let RowBatch(mut batch) = self.prepare_part(applied, keys)?;
        batch.insert(META_KEY, record::encode(&applied.rows_meta())?);
        // Otherwise the proof of an earlier step stays.
        if let Some(entry) = applied.last_applied
            && entry.index < self.durable_end.load(Ordering::Acquire)
        {
            let incarnation = self.incarnation;
            let proven = DurabilityProof { incarnation, entry };
            batch.insert(PROOF_KEY, record::encode(&proven)?);
        }
        Ok(RowBatch(batch))
    }

    /// Stores the rows of `keys` as they are now, and no other values.
    ///
    /// If a process ends between the parts and the step that follows them, its rows have another
    /// digest than the one stored with them. So they are quarantined and rebuilt.
    pub(crate) fn prepare_part(
        &self,
        applied: &AppliedState,
        keys: impl IntoIterator<Item = RowKey>,
    ) -> io::Result<RowBatch> {
        let mut batch = sled::Batch::default();
        for key in keys {
            match applied.state.row(key) {
                Some(row) => {
                    batch.insert(
                        encode_row_key(&key)?,
                        record::encode_at_level(row.level(), &row)?,
                    );
                }
                None => batch.remove(encode_row_key(&key)?),
            }
        }
        Ok(RowBatch(batch))
    }

    /// Makes a step part of the rows, wholly or not at all.
    pub(crate) fn commit_batch(&self, batch: RowBatch) -> Result<(), Error> {
        let stored = catch_sled_panic(|| self.db.apply_batch(batch.0));
        stored.map_err(|e| Error::io("cannot write", &self.directory.state_path())(e))
    }
}

/// One prepared step.
pub(crate) struct RowBatch(sled::Batch);

pub(crate) enum RowsError {
    Locked,
    /// The disk is full, read-only or forbidden, or no more files may be opened: this says nothing
    /// about the rows themselves.
    Refused(io::Error),
    Damaged(String),
}

impl From<sled::Error> for RowsError {
    fn from(error: sled::Error) -> RowsError {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match error {
            sled::Error::Io(e) => match (e.kind(), recover_os_error(e)) {
                (StorageFull | QuotaExceeded | ReadOnlyFilesystem | PermissionDenied, e) => {
                    RowsError::Refused(e)
                }
                (_, e) if is_out_of_descriptors(&e) => RowsError::Refused(e),
                (_, e) => RowsError::Damaged(e.to_string()),
            },
            other => RowsError::Damaged(other.to_string()),
        }
    }
}

impl From<record::RecordError> for RowsError {
    fn from(damage: record::RecordError) -> RowsError {
        RowsError::Damaged(damage.to_string())
    }
}

fn sled_config(path: &Path) -> sled::Config {
    // The background flusher stays on: sled's garbage collection runs only there.
    sled::Config::new()
        .path(path)
        .cache_capacity(SLED_CACHE_BYTES)
}

/// Opens and loads; sled panics on some damage, which counts as an error: the files are
/// quarantined.
fn open_and_load(path: &Path) -> Result<(SledHandle, LoadedRows), RowsError> {
    let load = || {
        let db = SledHandle::new(open_unlocked(path)?, path);
        let loaded = load_rows(&db)?;
        Ok((db, loaded))
    };
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|_| Err(RowsError::Damaged(String::from("sled panicked on it"))))
}

/// Opens sled and retries: its threads may hold its lock for a moment after an earlier use.
fn open_unlocked(path: &Path) -> Result<sled::Db, RowsError> {
    for _ in 0..500 {
        match sled_config(path).open() {
            Err(sled::Error::Io(e)) if e.to_string().contains("could not acquire lock") => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return Ok(other?),
        }
    }
    Err(RowsError::Locked)
}

fn load_rows(db: &sled::Db) -> Result<LoadedRows, RowsError> {
    let mut meta: Option<RowsMeta> = None;
    let mut proven: Option<DurabilityProof> = None;
    let mut rows = StateBuilder::default();
    let mut is_empty = true;
    for item in db.iter() {
        let (key, value) = item?;
        if key == META_KEY {
            meta = Some(record::decode(&value)?);
        } else if key == PROOF_KEY {
            proven = Some(record::decode(&value)?);
        } else {
            rows.add(decode_row_key(&key)?, record::decode(&value)?);
            is_empty = false;
        }
    }
    let Some(meta) = meta else {
        return match is_empty {
            true => Ok(LoadedRows {
                applied: AppliedState::default(),
                proven: None,
            }),
            false => Err(RowsError::Damaged(String::from("it lost its description"))),
        };
    };
    let state = rows
        .finish()
        .ok_or_else(|| RowsError::Damaged(String::from("its rows do not fit together")))?;
    let applied = AppliedState::new(state, meta.last_applied, meta.membership)
        .map_err(|e| RowsError::Damaged(e.to_string()))?;
    if applied.digest() != meta.digest {
        return Err(RowsError::Damaged(String::from(
            "its digest does not match its rows",
        )));
    }
    Ok(LoadedRows { applied, proven })
}

pub(crate) fn encode_row_key(key: &RowKey) -> io::Result<Vec<u8>> {
    let mut bytes = vec![ROW_KEY_PREFIX];
    bincode::serde::encode_into_std_write(key, &mut bytes, bincode::config::standard())
        .map_err(io::Error::other)?;
    Ok(bytes)
}

pub(crate) fn decode_row_key(bytes: &[u8]) -> Result<RowKey, RowsError> {
    let bad = || RowsError::Damaged(String::from("it has a key that is none of ours"));
    let (kind, rest) = bytes.split_first().ok_or_else(bad)?;
    let (key, used) =
        bincode::serde::decode_from_slice(rest, bincode::config::standard()).map_err(|_| bad())?;
    match *kind == ROW_KEY_PREFIX && used == rest.len() {
        true => Ok(key),
        false => Err(bad()),
    }
}
