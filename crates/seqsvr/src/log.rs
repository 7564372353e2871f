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

static STDERR: Log = Log::new();
static JSON: AtomicBool = AtomicBool::new(false);

/// Format of the lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sets the format of all further lines. It is called before the command line is parsed, since
/// parsing may fail.
pub(crate) fn choose(format: Format) {
    JSON.store(format == Format::Json, Relaxed);
}

pub(crate) fn is_json() -> bool {
    JSON.load(Relaxed)
}

/// Starts to log the events that pass `filter`, and panics, to stderr, until [`last`].
pub(crate) fn begin(filter: EnvFilter) {
    let log = tracing_subscriber::fmt()
        .with_writer(|| Line(&STDERR, io::stderr()))
        .with_env_filter(filter);
    match is_json() {
        true => log.json().init(),
        false => log.with_ansi(io::stderr().is_terminal()).init(),
    }
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let ended = STDERR.ended();
        match *ended {
            true => {}
            // Nothing more can be done if stderr is closed.
            false if is_json() => drop(writeln!(io::stderr(), "{}", panicked(panic))),
            false => print(panic),
        }
    }));
}

/// Prints a line that no filter discards.
pub(crate) fn say(text: impl Display) {
    let line = match is_json() {
        true => object("INFO", json!({ "message": text.to_string() })),
        false => text.to_string(),
    };
    put(line);
}

/// Prints an error that does not end the process.
pub(crate) fn error(text: impl Display) {
    put(told(text));
}

fn put(line: String) {
    // Nothing can be done if stderr is closed.
    let _ = Line(&STDERR, io::stderr()).write_all(format!("{line}\n").as_bytes());
}

/// Prints why the process ends, as its last line.
pub(crate) fn last(error: impl Display) {
    let _ = STDERR.last(&mut io::stderr(), told(error));
}

fn told(error: impl Display) -> String {
    match is_json() {
        true => object("ERROR", json!({ "message": error.to_string() })),
        false => format!("error: {error}"),
    }
}

/// Returns a JSON line in the format of `tracing-subscriber`.
fn object(level: &str, fields: Value) -> String {
    let mut time = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    json!({ "timestamp": time, "level": level, "fields": fields, "target": "seqsvr" }).to_string()
}

fn panicked(panic: &PanicHookInfo) -> String {
    let what = panic.payload_as_str().unwrap_or("a panic without words");
    let mut fields = json!({
        "message": format!("panicked: {what}"),
        "location": panic.location().map(ToString::to_string),
        "thread": std::thread::current().name(),
    });
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        fields["backtrace"] = trace.to_string().into();
    }
    object("ERROR", fields)
}

struct Log {
    /// Whether the last line was printed. The lock is held while a line is printed.
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

/// Writer of one event: it discards the event after the last line.
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

    #[test]
    fn a_panic_is_one_object() {
        let (send, told) = std::sync::mpsc::channel();
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| drop(send.send(panicked(panic)))));
        let ended = panic::catch_unwind(|| panic!("two\nlines, \"quoted\""));
        panic::set_hook(print);
        assert!(ended.is_err());
        let mut lines = told.try_iter();
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
