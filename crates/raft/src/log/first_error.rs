//! First failure of the log's disk, in the words that the process should end with.
//!
//! Invariant: each task that waits on a failed log gets the first cause. An error that follows from
//! it ("the channel is closed") does not help, and which of several waiters reaches openraft first
//! is chance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Error;

/// Record of the first failure.
pub(crate) struct FirstError {
    log: PathBuf,
    first: OnceLock<String>,
}

impl FirstError {
    pub(crate) fn new(log: &Path) -> FirstError {
        FirstError {
            log: log.to_owned(),
            first: OnceLock::new(),
        }
    }

    /// Returns the first failure; it is `error` if there was none before.
    pub(crate) fn get_or_record(&self, error: io::Error) -> io::Error {
        let kind = error.kind();
        let words = || Error::io("cannot write", &self.log)(error).to_string();
        io::Error::new(kind, self.first.get_or_init(words).clone())
    }
}
