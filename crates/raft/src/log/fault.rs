//! The first failure of the log's disk, kept in the words the process should end with.
//!
//! Invariant: whoever waits on a failed log hears the first cause. What follows from it ("the
//! channel is closed") helps nobody, and which of several waiters reaches openraft first is chance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Error;

/// Where the first failure is noted.
pub(crate) struct Fault {
    log: PathBuf,
    first: OnceLock<String>,
}

impl Fault {
    pub(crate) fn new(log: &Path) -> Fault {
        Fault {
            log: log.to_owned(),
            first: OnceLock::new(),
        }
    }

    /// The first failure; `error` is it if there was none before.
    pub(crate) fn of(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        let words = || Error::io("cannot write", &self.log)(error).to_string();
        io::Error::new(kind, self.first.get_or_init(words).clone())
    }
}
