//! The state's rows on sled: a shortcut for a restart, not the truth. Snapshot and log are.
//!
//! One atomic batch a step carries the rows touched, last applied id, membership and the digest
//! over all rows. Nothing is flushed on the way. Invariant: rows are used after a restart only if
//! sled opens, every row reads back, the digest over them matches, and the last applied id is in
//! the durable log or is the newest snapshot's. Schedule that needs the last rule: a leader applies
//! an entry that two followers made durable but its own log did not yet; the power goes off; sled
//! kept the row, the log lost the entry. Otherwise the directory is set aside and the state is
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
use serde::{Deserialize, Serialize};

use crate::applied::Applied;
use crate::aside::{remove_unfinished, set_aside};
use crate::calm::{Handle, calm, plain};
use crate::digest::Digest;
use crate::directory::Directory;
use crate::error::Error;
use crate::frame;
#[cfg(sim)]
use crate::memory_rows as sled;
use crate::types::{LogId, StoredMembership};

const CACHE_BYTES: u64 = 32 << 20;
const META: &[u8] = b"m";
const PROVEN: &[u8] = b"p";
const ROW: u8 = b'r';

/// Values stored with the rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    pub(crate) digest: Digest,
}

/// An entry that is in the log of the directory that wrote this, unless that log was tampered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proven {
    /// Incarnation of the directory.
    pub(crate) incarnation: u64,
    /// The entry: applied, and durable in that log.
    pub(crate) entry: LogId,
}

/// Content of loaded rows.
pub(crate) struct Loaded {
    pub(crate) applied: Applied,
    pub(crate) proven: Option<Proven>,
}

/// Rows on disk.
pub(crate) struct Rows {
    db: Handle,
    incarnation: u64,
    /// Entries below this index are durable in the log.
    durable: Arc<AtomicU64>,
    directory: Directory,
}

impl Rows {
    /// Opens the rows and loads their content, if it can be used: `judge` returns why not, or
    /// refuses to start because of what they prove. `durable` is the log's.
    pub(crate) fn open(
        directory: &Directory,
        incarnation: u64,
        durable: Arc<AtomicU64>,
        judge: impl Fn(&Loaded) -> Result<Option<String>, Error>,
    ) -> Result<(Rows, Applied), Error> {
        let path = directory.state();
        let rows = |db| Rows {
            db,
            incarnation,
            durable,
            directory: directory.clone(),
        };
        if path.exists() {
            if path.is_dir() {
                remove_unfinished(&path)?;
            }
            match open_and_load(&path) {
                Ok((db, loaded)) => match judge(&loaded)? {
                    None => return Ok((rows(db), loaded.applied)),
                    Some(why) => {
                        seqsvr_core::reached!("raft: rows were not borne out by the log");
                        drop(db);
                        set_aside(directory, &why)?;
                    }
                },
                Err(Unusable::Refused(e)) => return Err(Error::io("cannot open", &path)(e)),
                Err(Unusable::Locked) => return Err(Error::Locked(directory.root().to_owned())),
                Err(Unusable::Damaged(what)) => {
                    seqsvr_core::reached!("raft: rows were damaged");
                    set_aside(directory, &what)?;
                }
            }
        }
        let made = calm(|| config(&path).open());
        let db = made.map_err(Error::io("cannot create", &path))?;
        let db = Handle::new(db, &path);
        Ok((rows(db), Applied::default()))
    }

    /// Stores a step: the rows of `keys` as they are now, and all other values of the step.
    pub(crate) fn write(
        &self,
        applied: &Applied,
        keys: impl IntoIterator<Item = RowKey>,
    ) -> io::Result<Step> {
        let Step(mut batch) = self.write_part(applied, keys)?;
        batch.insert(META, frame::encode(&applied.meta())?);
        // Otherwise the proof of an earlier step stays.
        if let Some(entry) = applied.last_applied
            && entry.index < self.durable.load(Ordering::Acquire)
        {
            let incarnation = self.incarnation;
            let proven = Proven { incarnation, entry };
            batch.insert(PROVEN, frame::encode(&proven)?);
        }
        Ok(Step(batch))
    }

    /// Stores the rows of `keys` as they are now, and no other values.
    ///
    /// If a process ends between the parts and the step that follows them, its rows have another
    /// digest than the one stored with them. So they are set aside and rebuilt.
    pub(crate) fn write_part(
        &self,
        applied: &Applied,
        keys: impl IntoIterator<Item = RowKey>,
    ) -> io::Result<Step> {
        let mut batch = sled::Batch::default();
        for key in keys {
            match applied.state.row(key) {
                Some(row) => {
                    batch.insert(row_key(&key)?, frame::encode_at(row.level(), &row)?);
                }
                None => batch.remove(row_key(&key)?),
            }
        }
        Ok(Step(batch))
    }

    /// Makes a step part of the rows, wholly or not at all.
    pub(crate) fn commit(&self, step: Step) -> Result<(), Error> {
        let stored = calm(|| self.db.apply_batch(step.0));
        stored.map_err(|e| Error::io("cannot write", &self.directory.state())(e))
    }
}

/// One prepared step.
pub(crate) struct Step(sled::Batch);

pub(crate) enum Unusable {
    Locked,
    /// The disk is full, read-only or forbidden: this says nothing about the rows themselves.
    Refused(io::Error),
    Damaged(String),
}

impl From<sled::Error> for Unusable {
    fn from(error: sled::Error) -> Unusable {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match error {
            sled::Error::Io(e) => match e.kind() {
                StorageFull | QuotaExceeded | ReadOnlyFilesystem | PermissionDenied => {
                    Unusable::Refused(plain(e))
                }
                _ => Unusable::Damaged(plain(e).to_string()),
            },
            other => Unusable::Damaged(other.to_string()),
        }
    }
}

impl From<frame::Damage> for Unusable {
    fn from(damage: frame::Damage) -> Unusable {
        Unusable::Damaged(damage.to_string())
    }
}

fn config(path: &Path) -> sled::Config {
    // The background flusher stays on: sled's garbage collection runs only there.
    sled::Config::new().path(path).cache_capacity(CACHE_BYTES)
}

/// Opens and loads; sled panics on some damage, which counts as an error: the files are set aside.
fn open_and_load(path: &Path) -> Result<(Handle, Loaded), Unusable> {
    let load = || {
        let db = Handle::new(open_unlocked(path)?, path);
        let loaded = load(&db)?;
        Ok((db, loaded))
    };
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|_| Err(Unusable::Damaged(String::from("sled panicked on it"))))
}

/// Opens sled and retries: its threads may hold its lock for a moment after an earlier use.
fn open_unlocked(path: &Path) -> Result<sled::Db, Unusable> {
    for _ in 0..500 {
        match config(path).open() {
            Err(sled::Error::Io(e)) if e.to_string().contains("could not acquire lock") => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return Ok(other?),
        }
    }
    Err(Unusable::Locked)
}

fn load(db: &sled::Db) -> Result<Loaded, Unusable> {
    let mut meta: Option<Meta> = None;
    let mut proven: Option<Proven> = None;
    let mut rows = StateBuilder::default();
    let mut is_empty = true;
    for item in db.iter() {
        let (key, value) = item?;
        if key == META {
            meta = Some(frame::decode(&value)?);
        } else if key == PROVEN {
            proven = Some(frame::decode(&value)?);
        } else {
            rows.add(parse_key(&key)?, frame::decode(&value)?);
            is_empty = false;
        }
    }
    let Some(meta) = meta else {
        return match is_empty {
            true => Ok(Loaded {
                applied: Applied::default(),
                proven: None,
            }),
            false => Err(Unusable::Damaged(String::from("it lost its description"))),
        };
    };
    let state = rows
        .finish()
        .ok_or_else(|| Unusable::Damaged(String::from("its rows do not fit together")))?;
    let applied = Applied::new(state, meta.last_applied, meta.membership)
        .map_err(|e| Unusable::Damaged(e.to_string()))?;
    if applied.digest() != meta.digest {
        return Err(Unusable::Damaged(String::from(
            "its digest does not match its rows",
        )));
    }
    Ok(Loaded { applied, proven })
}

pub(crate) fn row_key(key: &RowKey) -> io::Result<Vec<u8>> {
    let mut bytes = vec![ROW];
    bincode::serde::encode_into_std_write(key, &mut bytes, bincode::config::standard())
        .map_err(io::Error::other)?;
    Ok(bytes)
}

pub(crate) fn parse_key(bytes: &[u8]) -> Result<RowKey, Unusable> {
    let bad = || Unusable::Damaged(String::from("it has a key that is none of ours"));
    let (kind, rest) = bytes.split_first().ok_or_else(bad)?;
    let (key, used) =
        bincode::serde::decode_from_slice(rest, bincode::config::standard()).map_err(|_| bad())?;
    match *kind == ROW && used == rest.len() {
        true => Ok(key),
        false => Err(bad()),
    }
}
