//! Stdout that receives a backup while a thread checks the same bytes.

use std::io::{self, BufReader, PipeWriter, Stdout, Write};
use std::thread::JoinHandle;

use seqsvr_store::backup::{self, StateBackup};

/// Writer of a backup to stdout. Nothing is kept: a pipe with the check bounds what is in memory.
pub(super) struct VerifiedStdout {
    stdout: Stdout,
    checked: PipeWriter,
    check: JoinHandle<Result<StateBackup, backup::Error>>,
}

impl VerifiedStdout {
    /// Starts the check.
    ///
    /// # Errors
    /// The system has no pipe or thread.
    pub(super) fn start() -> io::Result<VerifiedStdout> {
        let (reader, checked) = io::pipe()?;
        let check = std::thread::Builder::new()
            .name("backup check".into())
            .spawn(move || backup::read_backup_stream(BufReader::new(reader)))?;
        Ok(VerifiedStdout {
            stdout: io::stdout(),
            checked,
            check,
        })
    }

    /// Waits for the check, and returns what was written.
    ///
    /// # Errors
    /// The bytes are no whole backup.
    pub(super) fn finish(self) -> Result<StateBackup, backup::Error> {
        drop(self.checked);
        match self.check.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Returns whether a write failed because the check had ended: it found an error.
pub(super) fn is_check_ended(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns an error of stdout. It has another kind than a closed pipe: a backup that its reader did
/// not take is a failure, unlike other results.
fn stdout_error(error: io::Error) -> io::Error {
    io::Error::other(format!("stdout: {error}"))
}

impl Write for VerifiedStdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // All of them, so that both get the same.
        self.stdout.write_all(bytes).map_err(stdout_error)?;
        self.checked.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush().map_err(stdout_error)
    }
}
