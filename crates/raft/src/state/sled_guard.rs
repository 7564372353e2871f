//! sled's failures as ordinary errors, in the operating system's words.
#![cfg_attr(
    sim,
    allow(unreachable_patterns, reason = "rows in memory have one kind of error")
)]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[cfg(sim)]
use crate::state::memory_rows as sled;

/// Runs a call of sled and returns its panic as an error. A panic in openraft's task would leave a
/// node that continues to acknowledge and never applies again.
pub(crate) fn catch_sled_panic<T>(call: impl FnOnce() -> sled::Result<T>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(e))) => Err(recover_os_error(e)),
        Ok(Err(e)) => Err(io::Error::other(e)),
        Err(_) => Err(io::Error::other("sled panicked")),
    }
}

/// Returns the operating system's error itself: sled's copies have only its `Debug` text.
pub(crate) fn recover_os_error(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.split_once("code: ").map(|(_, rest)| rest);
    let code = code.and_then(|c| c.split(',').next()?.parse().ok());
    code.map_or(error, io::Error::from_raw_os_error)
}

/// A sled that is dropped without a panic. sled's own drop panics on a disk that does not sync,
/// unless sled got an error before. Within another panic that would abort the process before it
/// could say why it ends.
pub(crate) struct SledHandle {
    db: Option<sled::Db>,
    file: PathBuf,
}

impl SledHandle {
    /// Takes over a sled in `dir`.
    pub(crate) fn new(db: sled::Db, dir: &Path) -> SledHandle {
        SledHandle {
            db: Some(db),
            file: dir.join("db"),
        }
    }
}

impl Deref for SledHandle {
    type Target = sled::Db;

    #[expect(
        clippy::expect_used,
        reason = "it is taken when this is dropped, not before"
    )]
    fn deref(&self) -> &sled::Db {
        self.db.as_ref().expect("taken only when dropped")
    }
}

impl Drop for SledHandle {
    fn drop(&mut self) {
        let Some(db) = self.db.take() else { return };
        if File::open(&self.file).and_then(|f| f.sync_all()).is_err() {
            // Gives sled an error. The outcome of this write does not matter: rows that are not
            // whole are rebuilt.
            let _ = catch_sled_panic(|| {
                db.insert(b"x", b"")?;
                db.remove(b"x")?;
                db.flush()
            });
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}
