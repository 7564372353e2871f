//! Lines that a thread of its own writes to an output stream of a server.
//!
//! Invariant: no other thread waits for the reader of the stream. Schedule that breaks it: the
//! process that collects the log hangs, and its pipe is full. A Raft thread logs a line and waits
//! in write(2) without end; each thread that logs after it waits for the lock of the stream. So the
//! server sends no heartbeat, renews no lease and does not stop. Here the lock covers memory alone:
//! the writer takes what is queued, and writes it after it has released the lock. A full queue
//! drops lines and counts them.
//!
//! Lines leave whole and in the order of `push`. A line at their place counts those that are
//! missing.

use std::io;
use std::mem;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use seqsvr_metrics::count_dropped_log_lines;

/// Maximum size of the lines that wait while the writer writes others. A line above it is dropped.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Maximum size of one write of several lines: a pipe takes that much as a whole, so that lines of
/// other processes are before or behind it. A longer line is written alone.
const WRITE_BYTES_MAX: usize = 4_096;
/// Pause after which a write is repeated on a stream that its reader made non-blocking.
const RETRY_DELAY: Duration = Duration::from_millis(5);

/// The queue of one stream.
pub(super) struct LineQueue {
    lines: Mutex<QueuedLines>,
    /// The writer waits here for lines.
    filled: Condvar,
    /// Notified when the writer has nothing left of what it took.
    written: Condvar,
    describe_dropped: fn(u64) -> String,
}

#[derive(Default)]
struct QueuedLines {
    /// Whole lines that the writer has not taken yet.
    text: Vec<u8>,
    /// Number of lines that were dropped behind `text`.
    dropped: u64,
    is_writing: bool,
    is_closed: bool,
}

impl QueuedLines {
    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.dropped == 0
    }

    fn append(&mut self, line: &str) {
        self.text.extend_from_slice(line.as_bytes());
        if !line.ends_with('\n') {
            self.text.push(b'\n');
        }
    }
}

impl LineQueue {
    /// Starts the thread that writes to `stream`. `describe_dropped` makes the line that has the
    /// number of dropped lines.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        thread_name: &str,
        stream: impl AsFd + Send + 'static,
        describe_dropped: fn(u64) -> String,
    ) -> io::Result<Arc<LineQueue>> {
        let queue = Arc::new(LineQueue {
            lines: Mutex::default(),
            filled: Condvar::new(),
            written: Condvar::new(),
            describe_dropped,
        });
        let writer = StreamWriter {
            stream,
            describe_dropped,
            dropped: 0,
            is_torn: false,
        };
        let taken_from = queue.clone();
        thread::Builder::new()
            .name(thread_name.to_owned())
            .spawn(move || taken_from.write_to(writer))?;
        Ok(queue)
    }

    /// Adds a line, or several that belong together. Drops and counts them if the queue is full,
    /// and does nothing once it is closed. Never waits for the stream.
    pub(super) fn push(&self, line: &str) {
        let mut lines = self.lines.lock();
        if lines.is_closed {
            return;
        }
        let was_empty = lines.is_empty();
        // While a line is missing none may follow it: its place is behind `text`.
        if lines.dropped > 0 || lines.text.len() + line.len() >= QUEUE_BYTES_MAX {
            let count = count_lines(line.as_bytes()).max(1);
            lines.dropped += count;
            count_dropped_log_lines(count);
        } else {
            lines.append(line);
        }
        drop(lines);
        if was_empty {
            self.filled.notify_one();
        }
    }

    /// Closes the queue behind a last line, if there is one. Nothing follows it, also if the queue
    /// was full.
    pub(super) fn close(&self, last: Option<&str>) {
        let mut lines = self.lines.lock();
        if mem::replace(&mut lines.is_closed, true) {
            return;
        }
        if lines.dropped > 0 {
            let notice = (self.describe_dropped)(mem::take(&mut lines.dropped));
            lines.append(&notice);
        }
        if let Some(last) = last {
            lines.append(last);
        }
        drop(lines);
        self.filled.notify_one();
    }

    /// Waits until the stream has taken all lines that were added, at most until `deadline`.
    pub(super) fn wait_until_written(&self, deadline: Instant) {
        let mut lines = self.lines.lock();
        while lines.is_writing || !lines.is_empty() {
            if self.written.wait_until(&mut lines, deadline).timed_out() {
                return;
            }
        }
    }

    /// Writes what is added, until the process ends.
    fn write_to(&self, mut writer: StreamWriter<impl AsFd>) {
        let mut batch = Vec::new();
        loop {
            batch.clear();
            let mut lines = self.lines.lock();
            lines.is_writing = false;
            if lines.is_empty() {
                self.written.notify_all();
            }
            while lines.is_empty() {
                self.filled.wait(&mut lines);
            }
            lines.is_writing = true;
            mem::swap(&mut lines.text, &mut batch);
            let dropped = mem::take(&mut lines.dropped);
            drop(lines);
            writer.write_batch(&batch);
            if dropped > 0 {
                writer.dropped += dropped;
                writer.report_dropped();
            }
        }
    }
}

/// The thread's side of a stream.
struct StreamWriter<S> {
    stream: S,
    describe_dropped: fn(u64) -> String,
    /// Lines that were dropped since the last line with their number.
    dropped: u64,
    /// Whether the stream has the beginning of a line whose rest it did not take.
    is_torn: bool,
}

impl<S: AsFd> StreamWriter<S> {
    /// Writes whole lines. A stream that takes no more, such as a pipe without a reader, loses
    /// them; they count as dropped.
    fn write_batch(&mut self, mut batch: &[u8]) {
        while !batch.is_empty() {
            let (lines, rest) = batch.split_at(whole_lines_len(batch));
            let lost = match self.report_dropped() {
                true => self.write_lines(lines),
                false => lines,
            };
            let lost = count_lines(lost);
            if lost > 0 {
                self.dropped += lost;
                count_dropped_log_lines(lost);
            }
            batch = rest;
        }
    }

    /// Writes the number of dropped lines, if there are any. Returns whether none is left to
    /// report.
    fn report_dropped(&mut self) -> bool {
        if self.dropped > 0 {
            let line = format!("{}\n", (self.describe_dropped)(self.dropped));
            if self.write_lines(line.as_bytes()).is_empty() {
                self.dropped = 0;
            }
        }
        self.dropped == 0
    }

    /// Writes lines. Returns what the stream did not take.
    fn write_lines<'a>(&mut self, lines: &'a [u8]) -> &'a [u8] {
        if self.is_torn && !self.write_bytes(b"\n").is_empty() {
            return lines;
        }
        let rest = self.write_bytes(lines);
        let taken = &lines[..lines.len() - rest.len()];
        self.is_torn = !taken.is_empty() && !taken.ends_with(b"\n");
        rest
    }

    fn write_bytes<'a>(&self, mut bytes: &'a [u8]) -> &'a [u8] {
        while !bytes.is_empty() {
            match rustix::io::write(&self.stream, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => thread::sleep(RETRY_DELAY),
                Err(_) => return bytes,
            }
        }
        bytes
    }
}

/// Returns the length of the lines at the beginning of `batch` that are written together.
fn whole_lines_len(batch: &[u8]) -> usize {
    let head = &batch[..batch.len().min(WRITE_BYTES_MAX)];
    let is_line_end = |byte: &u8| *byte == b'\n';
    let last_end = head.iter().rposition(is_line_end);
    let end = last_end.or_else(|| batch.iter().position(is_line_end));
    end.map_or(batch.len(), |end| end + 1)
}

fn count_lines(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read, pipe};
    use std::sync::mpsc::channel;

    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);
    /// Length of a line of [`number_line`].
    const LINE_LEN: usize = 100;
    /// Line that fits no pipe.
    const LONG_LINE: &str = match str::from_utf8(&[b'x'; 200_000]) {
        Ok(line) => line,
        Err(_) => "",
    };

    fn describe(lines: u64) -> String {
        format!("dropped {lines}")
    }

    fn number_line(n: usize) -> String {
        format!("{n:0width$}", width = LINE_LEN - 1)
    }

    /// Starts a queue on a pipe that no process reads, and adds lines until some are dropped.
    /// Returns how many were added after the first one.
    fn start_and_fill(stream: impl AsFd + Send + 'static) -> (Arc<LineQueue>, usize) {
        let queue = LineQueue::start("log", stream, describe).unwrap();
        // Longer than a pipe: the writer has taken it, and waits for the reader.
        queue.push(LONG_LINE);
        let began = Instant::now();
        while !queue.lines.lock().text.is_empty() {
            assert!(began.elapsed() < TIMEOUT);
            thread::yield_now();
        }
        let mut added = 0;
        while queue.lines.lock().dropped < 100 {
            queue.push(&number_line(added));
            added += 1;
            assert!(added < 10 * QUEUE_BYTES_MAX / LINE_LEN);
        }
        (queue, added)
    }

    /// Asserts that lines 0 and following come in order behind the first line, and then the number
    /// of those that are missing up to `added`.
    fn check_lines(lines: &mut impl Iterator<Item = String>, added: usize) {
        assert_eq!(lines.next().unwrap(), LONG_LINE);
        let mut written = 0;
        let notice = loop {
            let line = lines.next().unwrap();
            if line != number_line(written) {
                break line;
            }
            written += 1;
        };
        assert!(written > QUEUE_BYTES_MAX / LINE_LEN / 2, "{written}");
        assert_eq!(notice, describe((added - written) as u64));
    }

    #[test]
    fn dropped_lines_are_reported_at_their_place() {
        let (reader, writer) = pipe().unwrap();
        let (queue, added) = start_and_fill(writer);
        let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
        check_lines(&mut lines, added);
        queue.push("later");
        assert_eq!(lines.next().unwrap(), "later");
    }

    #[test]
    fn last_line_follows_a_full_queue() {
        let (reader, writer) = pipe().unwrap();
        let (queue, added) = start_and_fill(writer);
        queue.close(Some("last"));
        queue.push("after the last");
        let began = Instant::now();
        queue.wait_until_written(began + Duration::from_millis(20));
        assert!(!queue.lines.lock().is_empty());
        let (read, lines) = channel();
        thread::spawn(move || {
            BufReader::new(reader)
                .lines()
                .for_each(|line| drop(read.send(line.unwrap())));
        });
        queue.wait_until_written(began + TIMEOUT);
        assert!(queue.lines.lock().is_empty());
        let mut lines = std::iter::from_fn(|| lines.recv_timeout(TIMEOUT).ok());
        check_lines(&mut lines, added);
        assert_eq!(lines.next().unwrap(), "last");
        drop(queue);
    }

    /// Schedule: the reader of a FIFO ends in the middle of a line, and another one opens it.
    #[test]
    fn next_reader_gets_whole_lines_and_the_number_of_lost_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let open_reader = || {
            let fd = open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
            let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
            rustix::fs::fcntl_setfl(&fd, flags - OFlags::NONBLOCK).unwrap();
            File::from(fd)
        };
        let mut first = open_reader();
        let writer = File::options().write(true).open(&path).unwrap();
        let queue = LineQueue::start("log", writer, describe).unwrap();
        queue.push(LONG_LINE);
        let mut beginning = [0; LINE_LEN];
        first.read_exact(&mut beginning).unwrap();
        drop(first);
        queue.push("lost");
        queue.wait_until_written(Instant::now() + TIMEOUT);
        let second = open_reader();
        queue.push("found");
        let mut lines = BufReader::new(second).lines().map(Result::unwrap);
        let torn = lines.next().unwrap();
        assert!(torn.chars().all(|c| c == 'x'), "{torn}");
        assert_eq!(lines.next().unwrap(), describe(2));
        assert_eq!(lines.next().unwrap(), "found");
    }

    #[test]
    fn lines_are_written_together_up_to_the_limit() {
        let line = format!("{}\n", number_line(1)).into_bytes();
        assert_eq!(line.len(), LINE_LEN);
        let together = WRITE_BYTES_MAX / LINE_LEN * LINE_LEN;
        assert_eq!(whole_lines_len(&line.repeat(100)), together);
        let long = [vec![b'x'; 2 * WRITE_BYTES_MAX], b"\n".to_vec(), line].concat();
        assert_eq!(whole_lines_len(&long), 2 * WRITE_BYTES_MAX + 1);
    }
}
