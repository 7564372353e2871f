//! The log on stderr, as text or as one JSON object a line.
//!
//! Nothing follows the last line, so the reason of an exit is always the last line. Threads of the
//! storage run for a moment after `main` has the result; what they log or panic with then is
//! discarded.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

static STDERR: StderrLog = StderrLog::new();
static JSON: AtomicBool = AtomicBool::new(false);

/// Format of the lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets the format of all further lines. It is called before the command line is parsed, since
/// parsing may fail.
pub(crate) fn set_format(format: LogFormat) {
    JSON.store(format == LogFormat::Json, Relaxed);
}

/// Returns whether the log is JSON.
pub(crate) fn is_json() -> bool {
    JSON.load(Relaxed)
}

/// Starts to log the events that pass `filter`, and panics, to stderr, until [`print_last_line`].
pub(crate) fn start_logging(filter: EnvFilter) {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(|| EventWriter(&STDERR, io::stderr()))
        .with_env_filter(filter);
    match is_json() {
        true => subscriber.json().init(),
        false => subscriber.with_ansi(io::stderr().is_terminal()).init(),
    }
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let ended = STDERR.lock_ended();
        match *ended {
            true => {}
            // Nothing more can be done if stderr is closed.
            false if is_json() => drop(writeln!(io::stderr(), "{}", panic_line(panic))),
            false => default_hook(panic),
        }
    }));
}

/// Prints a line that no filter discards.
pub(crate) fn log_unfiltered(text: impl Display) {
    let line = match is_json() {
        true => json_line("INFO", json!({ "message": text.to_string() })),
        false => text.to_string(),
    };
    write_line(&line);
}

/// Prints an error that does not end the process.
pub(crate) fn print_error(text: impl Display) {
    write_line(&error_line(text));
}

/// Writes a line to stderr, unless the last line was printed.
fn write_line(line: &str) {
    // Nothing can be done if stderr is closed.
    let _ = EventWriter(&STDERR, io::stderr()).write_all(format!("{line}\n").as_bytes());
}

/// Prints why the process ends, as its last line.
pub(crate) fn print_last_line(error: impl Display) {
    let _ = STDERR.write_last(&mut io::stderr(), error_line(error));
}

/// Returns the line of an error in the format of the log.
fn error_line(error: impl Display) -> String {
    match is_json() {
        true => json_line("ERROR", json!({ "message": error.to_string() })),
        false => format!("error: {error}"),
    }
}

/// Returns a JSON line in the format of `tracing-subscriber`.
fn json_line(level: &str, fields: Value) -> String {
    let mut time = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    json!({ "timestamp": time, "level": level, "fields": fields, "target": "seqsvr" }).to_string()
}

/// Returns the JSON line of a panic.
fn panic_line(panic: &PanicHookInfo) -> String {
    let message = panic
        .payload_as_str()
        .unwrap_or("a panic without a message");
    let mut fields = json!({
        "message": format!("panicked: {message}"),
        "location": panic.location().map(ToString::to_string),
        "thread": std::thread::current().name(),
    });
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        fields["backtrace"] = trace.to_string().into();
    }
    json_line("ERROR", fields)
}

/// State of the log: it discards all lines after the last one.
struct StderrLog {
    /// Whether the last line was printed. The lock is held while a line is printed.
    ended: Mutex<bool>,
}

impl StderrLog {
    const fn new() -> StderrLog {
        StderrLog {
            ended: Mutex::new(false),
        }
    }

    fn lock_ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_last(&self, out: &mut impl Write, line: impl Display) -> io::Result<()> {
        let line = format!("{line}\n");
        let mut ended = self.lock_ended();
        *ended = true;
        out.write_all(line.as_bytes())
    }
}

/// Writer of one event: it discards the event after the last line.
struct EventWriter<'a, W>(&'a StderrLog, W);

impl<W: Write> Write for EventWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ended = self.0.lock_ended();
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
    fn log_discards_lines_after_the_last() {
        let log = StderrLog::new();
        let mut output = Vec::new();
        EventWriter(&log, &mut output)
            .write_all(b"a disk fails\n")
            .unwrap();
        log.write_last(&mut output, "error: it failed").unwrap();
        EventWriter(&log, &mut output)
            .write_all(b"a thread ends\n")
            .unwrap();
        assert_eq!(output, b"a disk fails\nerror: it failed\n");
    }

    #[test]
    fn panic_is_logged_as_one_json_line() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let default_hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| drop(sender.send(panic_line(panic)))));
        let result = panic::catch_unwind(|| panic!("two\nlines, \"quoted\""));
        panic::set_hook(default_hook);
        assert!(result.is_err());
        let mut lines = receiver.try_iter();
        // Other tests of this process may have panicked in between.
        let line = lines.find(|line| line.contains("quoted")).unwrap();
        assert_eq!(line.lines().count(), 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["level"], "ERROR");
        assert_eq!(
            line["fields"]["message"],
            "panicked: two\nlines, \"quoted\""
        );
        assert!(line["fields"]["location"].is_string(), "{line}");
    }
}
