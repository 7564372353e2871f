//! First failure of the log or of the state, in the words that the process should end with.
//!
//! Invariant: each task that waits on a failed log gets the first cause, and so does the last line
//! of a node whose state failed. An error that follows from it ("the channel is closed") does not
//! help, and which of several reaches openraft first is chance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Error;

/// Record of the first failure.
pub(crate) struct FirstError {
    /// File that an error without one is about.
    file: PathBuf,
    first: OnceLock<Error>,
}

impl FirstError {
    pub(crate) fn new(file: &Path) -> FirstError {
        FirstError {
            file: file.to_owned(),
            first: OnceLock::new(),
        }
    }

    /// Returns the first failure; it is `error` if there was none before.
    pub(crate) fn get_or_record(&self, error: io::Error) -> io::Error {
        let first = || Error::writing(&self.file)(error);
        self.first.get_or_init(first).clone().into()
    }

    /// Returns the first failure, if there was any.
    pub(crate) fn get(&self) -> Option<&Error> {
        self.first.get()
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn failure_of_log_is_described_once() {
        let log = Path::new("/d/log");
        let first = FirstError::new(log);
        let failure = first.get_or_record(ErrorKind::StorageFull.into());
        let later = first.get_or_record(io::Error::other("channel closed"));
        assert_eq!(later.to_string(), failure.to_string());
        let text = Error::writing(log)(later).to_string();
        assert_eq!(
            text,
            Error::io("cannot write", log)(ErrorKind::StorageFull.into()).to_string()
        );
        assert_eq!(text, failure.to_string());
    }
}
