//! The state's rows on sled: a shortcut for a restart, not the truth. Snapshot and log are.
//!
//! One atomic batch a step carries the rows touched, last applied id, membership and the digest over
//! all rows. Nothing is flushed on the way. Invariant: rows are used after a restart only if sled
//! opens, every row reads back, the digest over them matches, and the last applied id stands in the
//! durable log or is the newest snapshot's. Schedule that needs the last rule: a leader applies an
//! entry that two followers made durable but its own log did not yet; the power goes; sled kept the
//! row, the log lost the entry. Otherwise the directory is set aside and the state rebuilt.
//!
//! Values stay under 4 KiB: sled keeps larger ones in files it never syncs.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
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
const ROW: u8 = b'r';

/// What is stored beside the rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    pub(crate) digest: Digest,
}

/// Rows on disk.
pub(crate) struct Rows {
    db: sled::Db,
    _directory: Directory,
}

impl Rows {
    /// Opens the rows and loads what they hold, if it can be used: `durable` tells whether a last
    /// applied id may be continued from.
    pub(crate) fn open(
        directory: &Directory,
        durable: impl Fn(Option<LogId>) -> io::Result<bool>,
    ) -> Result<(Rows, Applied), Error> {
        let path = directory.state();
        if path.exists() {
            remove_unfinished(&path)?;
            match open_and_load(&path) {
                Ok((db, applied))
                    if durable(applied.last_applied).map_err(Error::reading(&path))? =>
                {
                    return Ok((Rows::new(db, directory), applied));
                }
                Ok((_, applied)) => set_aside(
                    directory,
                    &format!(
                        "its last applied entry {} is not in the durable log",
                        applied.index()
                    ),
                )?,
                Err(Unusable::Locked) => return Err(Error::Locked(directory.root().to_owned())),
                Err(Unusable::Damaged(what)) => set_aside(directory, &what)?,
            }
        }
        let db = config(&path)
            .open()
            .map_err(|e| Error::io("cannot create", &path)(io::Error::other(e)))?;
        Ok((Rows::new(db, directory), Applied::default()))
    }

    fn new(db: sled::Db, directory: &Directory) -> Rows {
        Rows {
            db,
            _directory: directory.clone(),
        }
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
        Ok(Step(batch))
    }

    /// Makes a step part of the rows, wholly or not at all.
    pub(crate) fn commit(&self, step: Step) -> io::Result<()> {
        self.db.apply_batch(step.0).map_err(io::Error::other)
    }
}

/// One prepared step.
pub(crate) struct Step(sled::Batch);

pub(crate) enum Unusable {
    Locked,
    Damaged(String),
}

impl From<sled::Error> for Unusable {
    fn from(error: sled::Error) -> Unusable {
        Unusable::Damaged(error.to_string())
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

/// sled panics on some damage, which is as good as an error here: the files are set aside.
fn open_and_load(path: &Path) -> Result<(sled::Db, Applied), Unusable> {
    let load = || {
        let db = open_unlocked(path)?;
        let applied = load(&db)?;
        Ok((db, applied))
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

fn load(db: &sled::Db) -> Result<Applied, Unusable> {
    let mut meta: Option<Meta> = None;
    let mut rows: Vec<(RowKey, Row)> = Vec::new();
    for item in db.iter() {
        let (key, value) = item?;
        if key == META {
            meta = Some(frame::decode(&value)?);
        } else {
            rows.push((parse_key(&key)?, frame::decode(&value)?));
        }
    }
    let Some(meta) = meta else {
        return match rows.is_empty() {
            true => Ok(Applied::default()),
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
    Ok(applied)
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
    for (_, path) in aside.into_iter().take(excess) {
        fs::remove_dir_all(&path).map_err(Error::io("cannot delete", &path))?;
    }
    Ok(())
}
