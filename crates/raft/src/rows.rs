//! The state's rows on sled: a shortcut for a restart, not the truth. Snapshot and log are.
//!
//! One atomic batch a step carries the rows touched, last applied id, membership and the digest over
//! all rows. Nothing is flushed on the way. Invariant: rows are used after a restart only if sled
//! opens, every row reads back, the digest over them matches, and the last applied id stands in the
//! durable log or is the newest snapshot's. Schedule that needs the last rule: a leader applies an
//! entry that two followers made durable but its own log did not yet; the power goes; sled kept the
//! row, the log lost the entry. Otherwise the directory is set aside and the state rebuilt.
//!
//! Beside them stands a proof about the *log*: the newest entry that was applied when it was already
//! durable in this node's own log. Raft never takes such an entry back, so a log without it is an
//! older copy or lost its end, and a voter that went on from it would have forgotten what it
//! acknowledged. Schedule: three voters, entry 900 is acknowledged by nodes 1 and 2; node 2's log
//! directory is replaced by a copy made at entry 500; node 1 dies; nodes 2 and 3 elect a leader that
//! never saw entry 900.
//!
//! A write that fails, in sled's own threads or by a panic of it, is an error of the next step: the
//! node stops, and its log says after a restart what the rows lost.
//!
//! Values stay under 4 KiB: sled keeps larger ones in files it never syncs.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use seqsvr_core::state::{Row, RowKey, State};
use serde::{Deserialize, Serialize};

use crate::applied::Applied;
use crate::digest::Digest;
use crate::directory::{self, Directory};
use crate::error::Error;
use crate::frame;
use crate::types::{LogId, StoredMembership};

const CACHE_BYTES: u64 = 32 << 20;
/// Directories set aside that are kept for whoever wants to know.
const ASIDE_MAX: usize = 3;
const META: &[u8] = b"m";
const PROVEN: &[u8] = b"p";
const LAST: &[u8] = b"x";
const ROW: u8 = b'r';

/// What is stored beside the rows.
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

/// What rows were found to hold.
pub(crate) struct Loaded {
    pub(crate) applied: Applied,
    pub(crate) proven: Option<Proven>,
}

/// Rows on disk.
pub(crate) struct Rows {
    db: sled::Db,
    incarnation: u64,
    /// Entries below this index are durable in the log.
    durable: Arc<AtomicU64>,
    directory: Directory,
}

impl Rows {
    /// Opens the rows and loads what they hold, if it can be used: `judge` says why not, or refuses
    /// to start on what they prove. `durable` is the log's.
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
                        drop(db);
                        set_aside(directory, &why)?;
                    }
                },
                Err(Unusable::Refused(e)) => return Err(Error::io("cannot open", &path)(e)),
                Err(Unusable::Locked) => return Err(Error::Locked(directory.root().to_owned())),
                Err(Unusable::Damaged(what)) => set_aside(directory, &what)?,
            }
        }
        let made = calm(|| config(&path).open());
        let db = made.map_err(Error::io("cannot create", &path))?;
        Ok((rows(db), Applied::default()))
    }

    /// Stores a step: the rows of `keys` as they are now, and everything beside the rows.
    pub(crate) fn write(
        &self,
        applied: &Applied,
        keys: impl IntoIterator<Item = RowKey>,
    ) -> io::Result<Step> {
        let mut batch = sled::Batch::default();
        for key in keys {
            match applied.state.row(key) {
                Some(row) => batch.insert(row_key(&key)?, frame::encode(&row)?),
                None => batch.remove(row_key(&key)?),
            }
        }
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

    /// Makes a step part of the rows, wholly or not at all.
    pub(crate) fn commit(&self, step: Step) -> Result<(), Error> {
        let stored = calm(|| self.db.apply_batch(step.0));
        stored.map_err(|e| Error::io("cannot write", &self.directory.state())(e))
    }
}

impl Drop for Rows {
    /// sled panics when it is dropped on a disk that does not sync, unless it has met an error
    /// before. So it is made to meet one: the process should end with one clear line, not with that.
    fn drop(&mut self) {
        let file = self.directory.state().join("db");
        if fs::File::open(file).and_then(|f| f.sync_all()).is_err() {
            // What becomes of this write is the same: rows that are not whole are rebuilt.
            let _ = calm(|| {
                self.db.insert(LAST, b"")?;
                self.db.remove(LAST)?;
                self.db.flush()
            });
        }
    }
}

/// One prepared step.
pub(crate) struct Step(sled::Batch);

pub(crate) enum Unusable {
    Locked,
    /// Full, read-only or forbidden: nothing is said about the rows themselves.
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

/// A call of sled whose panic is an error like its others: a panic in openraft's task would leave a
/// node that goes on acknowledging and never applies again.
fn calm<T>(call: impl FnOnce() -> sled::Result<T>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(e))) => Err(plain(e)),
        Ok(Err(e)) => Err(io::Error::other(e)),
        Err(_) => Err(io::Error::other("sled panicked")),
    }
}

/// The operating system's error itself: sled hands on copies that have only its `Debug` text.
fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.split_once("code: ").map(|(_, rest)| rest);
    let code = code.and_then(|c| c.split(',').next()?.parse().ok());
    code.map_or(error, io::Error::from_raw_os_error)
}

/// sled panics on some damage, which is as good as an error here: the files are set aside.
fn open_and_load(path: &Path) -> Result<(sled::Db, Loaded), Unusable> {
    let load = || {
        let db = open_unlocked(path)?;
        let loaded = load(&db)?;
        Ok((db, loaded))
    };
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|_| Err(Unusable::Damaged(String::from("sled panicked on it"))))
}

/// sled's threads may hold its lock for a moment after an earlier use in this process.
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
    let mut rows: Vec<(RowKey, Row)> = Vec::new();
    for item in db.iter() {
        let (key, value) = item?;
        if key == META {
            meta = Some(frame::decode(&value)?);
        } else if key == PROVEN {
            proven = Some(frame::decode(&value)?);
        } else {
            rows.push((parse_key(&key)?, frame::decode(&value)?));
        }
    }
    let Some(meta) = meta else {
        return match rows.is_empty() {
            true => Ok(Loaded {
                applied: Applied::default(),
                proven: None,
            }),
            false => Err(Unusable::Damaged(String::from("it lost its description"))),
        };
    };
    let state = State::from_rows(rows)
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

/// sled refuses to open beside a snapshot of its own that it did not finish.
fn remove_unfinished(path: &Path) -> Result<(), Error> {
    for file in directory::list(path)? {
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
        if name.is_some_and(|n| n.starts_with("snap.") && n.ends_with(".generating")) {
            fs::remove_file(&file).map_err(Error::io("cannot delete", &file))?;
        }
    }
    Ok(())
}

fn set_aside(directory: &Directory, what: &str) -> Result<(), Error> {
    let prefix = "state.bad.";
    let number = |path: &PathBuf| -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(prefix)?.parse().ok()
    };
    let mut aside: Vec<(u64, PathBuf)> = directory::list(directory.root())?
        .into_iter()
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    aside.sort();
    let next = aside.last().map_or(1, |(n, _)| n + 1);
    let to = directory.root().join(format!("{prefix}{next}"));
    tracing::warn!(
        directory = %directory.state().display(),
        set_aside_as = %to.display(),
        "stored state cannot be used ({what}): it is set aside and rebuilt from snapshot and log; nothing is lost"
    );
    directory::publish(&directory.state(), &to)?;
    let excess = (aside.len() + 1).saturating_sub(ASIDE_MAX);
    // What lay there in the place of a directory is not ours to delete.
    let ours = aside.into_iter().filter(|(_, path)| path.is_dir());
    for (_, path) in ours.take(excess) {
        fs::remove_dir_all(&path).map_err(Error::io("cannot delete", &path))?;
    }
    Ok(())
}
