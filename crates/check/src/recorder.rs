//! Writes a history from many threads at once.
//!
//! Every clone gathers whole lines in a buffer of its own and takes the shared lock only to hand
//! over a full one, so recording costs the load test little. Invariant: what reaches the output is
//! whole lines, and after a failed write nothing more, so that a history is never whole to look
//! at and yet has a hole; `finish` reports the failure.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::history::{HEADER, LINE_MAX};
use crate::{Call, Error};

/// Bytes a clone gathers before it takes the lock.
const BUFFER: usize = 64 * 1024;

/// Records calls; cheap to clone, one clone for each thread or task.
///
/// A clone hands over what it holds when it is dropped. Keep one, and [`finish`](Self::finish) it
/// when all the others are gone.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Mutex<Shared>>,
    buffer: String,
    calls: u64,
}

struct Shared {
    out: Box<dyn Write + Send>,
    calls: u64,
    failed: Option<io::Error>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("calls", &self.calls)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Recorder {
    /// Makes the file, or empties it, and writes the header.
    ///
    /// # Errors
    /// The file cannot be made or written.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = File::create(path).map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
        Self::new(file)
    }

    /// Records to any output; it is written to in large pieces.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(mut out: impl Write + Send + 'static) -> Result<Self, Error> {
        writeln!(out, "{HEADER}").map_err(Error::Write)?;
        Ok(Self {
            shared: Arc::new(Mutex::new(Shared {
                out: Box::new(out),
                calls: 0,
                failed: None,
            })),
            buffer: String::new(),
            calls: 0,
        })
    }

    /// Records one call. Blocks for a write once in some hundred calls.
    ///
    /// # Errors
    /// Writing failed, now or earlier, here or in another clone.
    pub fn record(&mut self, call: &Call) -> Result<(), Error> {
        if self.buffer.capacity() == 0 {
            self.buffer.reserve_exact(BUFFER + LINE_MAX);
        }
        // Writing to a String cannot fail.
        let _ = writeln!(self.buffer, "{call}");
        self.calls += 1;
        if self.buffer.len() >= BUFFER {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Writes out everything and returns how many calls all the clones recorded.
    ///
    /// # Errors
    /// Other clones are still alive, or a write failed: the history must not be checked then.
    pub fn finish(mut self) -> Result<u64, Error> {
        let others = Arc::strong_count(&self.shared) - 1;
        if others > 0 {
            return Err(Error::StillRecording(others));
        }
        self.hand_over()?;
        let mut shared = lock(&self.shared);
        shared.out.flush().map_err(Error::Write)?;
        Ok(shared.calls)
    }

    fn hand_over(&mut self) -> Result<(), Error> {
        let mut shared = lock(&self.shared);
        if shared.failed.is_none() {
            match shared.out.write_all(self.buffer.as_bytes()) {
                Ok(()) => shared.calls += self.calls,
                Err(error) => shared.failed = Some(error),
            }
        }
        self.buffer.clear();
        self.calls = 0;
        match &shared.failed {
            None => Ok(()),
            Some(error) => Err(Error::Write(io::Error::new(
                error.kind(),
                error.to_string(),
            ))),
        }
    }
}

impl Clone for Recorder {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            buffer: String::new(),
            calls: 0,
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A failure is kept for `finish`.
        let _ = self.hand_over();
    }
}

/// A thread that panicked inside the lock left at worst a torn line, which the reader refuses.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
