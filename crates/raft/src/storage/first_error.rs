//! First failure of the log's disk, in the words that the process should end with.
//!
//! Invariant: each task that waits on a failed log gets the first cause. An error that follows from
//! it ("the channel is closed") does not help, and which of several waiters reaches openraft first
//! is chance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::LogFailure;

/// Record of the first failure.
pub(crate) struct FirstError {
    log: PathBuf,
    first: OnceLock<LogFailure>,
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
        let failure = || LogFailure {
            log: self.log.clone(),
            reason: Arc::new(error),
        };
        io::Error::new(kind, self.first.get_or_init(failure).clone())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::error::Error;

    #[test]
    fn failure_of_log_is_described_once() {
        let log = Path::new("/d/log");
        let first = FirstError::new(log);
        let failure = first.get_or_record(ErrorKind::StorageFull.into());
        let later = first.get_or_record(io::Error::other("channel closed"));
        assert_eq!(later.to_string(), failure.to_string());
        let text = Error::writing_log(log)(later).to_string();
        assert_eq!(
            text,
            Error::io("cannot write", log)(ErrorKind::StorageFull.into()).to_string()
        );
        assert_eq!(text, failure.to_string());
    }
}
