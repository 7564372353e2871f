//! What a process says on stderr, and that nothing follows its last line: who reads why it ended
//! reads one line. Threads of the storage go on for a moment after `main` knows how it ends, and what
//! they log or panic with then is not said.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing_subscriber::EnvFilter;

static STDERR: Log = Log::new();

/// Logs to stderr what `filter` lets through, panics included, until [`last`].
pub(crate) fn begin(filter: EnvFilter) {
    tracing_subscriber::fmt()
        .with_writer(|| Line(&STDERR, io::stderr()))
        .with_ansi(io::stderr().is_terminal())
        .with_env_filter(filter)
        .init();
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let ended = STDERR.ended();
        if !*ended {
            print(panic);
        }
    }));
}

/// Prints the last line.
pub(crate) fn last(line: impl Display) {
    // Nothing more can be done if stderr is closed.
    let _ = STDERR.last(&mut io::stderr(), line);
}

struct Log {
    /// Held while something is printed.
    ended: Mutex<bool>,
}

impl Log {
    const fn new() -> Log {
        Log {
            ended: Mutex::new(false),
        }
    }

    fn ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self, out: &mut impl Write, line: impl Display) -> io::Result<()> {
        let line = format!("{line}\n");
        let mut ended = self.ended();
        *ended = true;
        out.write_all(line.as_bytes())
    }
}

/// Where one event of the log is written to.
struct Line<'a, W>(&'a Log, W);

impl<W: Write> Write for Line<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ended = self.0.ended();
        if *ended {
            return Ok(bytes.len());
        }
        self.1.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.1.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_follows_the_last_line() {
        let log = Log::new();
        let mut said = Vec::new();
        Line(&log, &mut said).write_all(b"a disk fails\n").unwrap();
        log.last(&mut said, "error: it failed").unwrap();
        Line(&log, &mut said).write_all(b"a thread ends\n").unwrap();
        assert_eq!(said, b"a disk fails\nerror: it failed\n");
    }
}
