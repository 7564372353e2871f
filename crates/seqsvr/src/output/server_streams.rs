//! Stdout and stderr of a server: each has a queue and a thread that writes it.
//!
//! Commands write directly and wait for the reader, so that `| less` loses no line.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::line_queue::LineQueue;

/// Maximum time that a server waits at its end until its last lines are written.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

static STREAMS: OnceLock<ServerStreams> = OnceLock::new();

/// The queues of a server.
pub(super) struct ServerStreams {
    pub(super) stdout: Arc<LineQueue>,
    pub(super) stderr: Arc<LineQueue>,
}

impl ServerStreams {
    /// Starts the threads. From now on the process writes nothing to the streams on another thread.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(describe_dropped: fn(u64) -> String) -> io::Result<()> {
        let streams = ServerStreams {
            stdout: LineQueue::start("stdout", io::stdout(), describe_dropped)?,
            stderr: LineQueue::start("log", io::stderr(), describe_dropped)?,
        };
        // It is called once.
        let _ = STREAMS.set(streams);
        Ok(())
    }

    /// Returns the queues of this process. None: it is no server.
    pub(super) fn get() -> Option<&'static ServerStreams> {
        STREAMS.get()
    }

    /// Ends the output, with a last line on stderr if there is one. Returns when the readers have
    /// everything, or after 1 s.
    pub(super) fn close(&self, last: Option<&str>) {
        self.stdout.close(None);
        self.stderr.close(last);
        self.wait_until_written();
    }

    /// Waits until the readers have everything, at most for 1 s.
    pub(super) fn wait_until_written(&self) {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        self.stdout.wait_until_written(deadline);
        self.stderr.wait_until_written(deadline);
    }
}
