//! Writes a history from many threads at once.
//!
//! Every clone collects complete lines in a buffer of its own. It takes the shared lock only to
//! write out a full buffer, so recording costs the load test little.
//!
//! Invariant: only complete lines reach the output, and nothing more after a failed write. So no
//! history looks complete and has a gap. `finish` reports the failure.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::Error;
use super::history_format::{HEADER, LINE_MAX};
use super::recorded_call::RecordedCall;

/// Bytes that a clone collects before it takes the lock.
const BUFFER_BYTES: usize = 64 * 1024;

/// Records calls; cheap to clone, one clone for each thread or task.
///
/// A clone writes out its lines when it is dropped. Keep one clone, and [`finish`](Self::finish) it
/// after all the others are dropped.
#[derive(Debug)]
pub struct HistoryRecorder {
    shared: Arc<Mutex<RecorderOutput>>,
    buffer: String,
    calls: u64,
}

struct RecorderOutput {
    out: Box<dyn Write + Send>,
    calls: u64,
    write_error: Option<io::Error>,
}

impl std::fmt::Debug for RecorderOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecorderOutput")
            .field("calls", &self.calls)
            .field("write_error", &self.write_error)
            .finish_non_exhaustive()
    }
}

impl HistoryRecorder {
    /// Creates or truncates the file, and writes the header.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::new(file)
    }

    /// Records to any output, in large writes.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(mut out: impl Write + Send + 'static) -> Result<Self, Error> {
        writeln!(out, "{HEADER}").map_err(Error::Write)?;
        Ok(Self {
            shared: Arc::new(Mutex::new(RecorderOutput {
                out: Box::new(out),
                calls: 0,
                write_error: None,
            })),
            buffer: String::new(),
            calls: 0,
        })
    }

    /// Records one call. It blocks for a write once in some hundred calls.
    ///
    /// # Errors
    /// A write failed, now or earlier, in this clone or in another one.
    pub fn record(&mut self, call: &RecordedCall) -> Result<(), Error> {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(BUFFER_BYTES + LINE_MAX);
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.buffer, "{call}");
        self.calls += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush_buffer()?;
        }
        Ok(())
    }

    /// Writes out everything and returns how many calls all clones recorded.
    ///
    /// # Errors
    /// Other clones are alive, or a write failed; then the history must not be checked.
    pub fn finish(mut self) -> Result<u64, Error> {
        let others = Arc::strong_count(&self.shared) - 1;
        if others > 0 {
            return Err(Error::StillRecording(others));
        }
        self.flush_buffer()?;
        let mut shared = lock_output(&self.shared);
        shared.out.flush().map_err(Error::Write)?;
        Ok(shared.calls)
    }

    fn flush_buffer(&mut self) -> Result<(), Error> {
        let mut shared = lock_output(&self.shared);
        if shared.write_error.is_none() {
            match shared.out.write_all(self.buffer.as_bytes()) {
                Ok(()) => shared.calls += self.calls,
                Err(error) => shared.write_error = Some(error),
            }
        }
        self.buffer.clear();
        self.calls = 0;
        match &shared.write_error {
            None => Ok(()),
            Some(error) => Err(Error::Write(io::Error::new(
                error.kind(),
                error.to_string(),
            ))),
        }
    }
}

impl Clone for HistoryRecorder {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            buffer: String::new(),
            calls: 0,
        }
    }
}

impl Drop for HistoryRecorder {
    fn drop(&mut self) {
        // A failure is kept for `finish`.
        let _ = self.flush_buffer();
    }
}

/// Locks the output. A thread that panicked inside the lock left at worst a torn line, which the
/// reader rejects.
fn lock_output(shared: &Mutex<RecorderOutput>) -> MutexGuard<'_, RecorderOutput> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
