//! The log on stderr, as text or as one JSON object a line.
//!
//! Nothing follows the last line, so the reason of an exit is always the last line. Threads of the
//! storage run for a moment after `main` has the result. The process prints its last line under the
//! lock of stderr and never releases it: a thread that logs or panics then waits until the process
//! ends.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

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

/// Starts to log the events that pass `filter`, and panics, to stderr, until [`exit_with_error`].
pub(crate) fn start_logging(filter: EnvFilter) {
    let subscriber = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(filter);
    match is_json() {
        true => subscriber.json().init(),
        false => subscriber.with_ansi(io::stderr().is_terminal()).init(),
    }
    let default_hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        // The default hook takes no lock.
        let _lock = io::stderr().lock();
        match is_json() {
            true => write_line(&panic_line(panic)),
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

/// Prints why the process ends, as its last line, and ends it.
pub(crate) fn exit_with_error(error: impl Display, code: i32) -> ! {
    let _lock = io::stderr().lock();
    write_line(&error_line(error));
    process::exit(code)
}

/// Writes a line to stderr.
fn write_line(line: &str) {
    // Nothing can be done if stderr is closed.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
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

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Schedule: threads log and panic while the process prints its last line. They run in another
    /// process, since that ends.
    #[test]
    fn nothing_follows_the_last_line() {
        const CHILD: &str = "SEQSVR_TEST_CHILD";
        if env::var_os(CHILD).is_some() {
            start_logging(EnvFilter::new("info"));
            for _ in 0..4 {
                thread::spawn(|| {
                    loop {
                        tracing::info!("a disk fails");
                        let _ = panic::catch_unwind(|| panic!("a thread ends"));
                    }
                });
            }
            thread::sleep(Duration::from_millis(50));
            exit_with_error("it failed", 1);
        }
        let name = "output::log::tests::nothing_follows_the_last_line";
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("a disk fails") && errors.contains("a thread ends"));
        assert!(
            errors.ends_with("\nerror: it failed\n"),
            "{:?}",
            errors.lines().last()
        );
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
