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

use seqsvr_proto::printable::printable;
use serde_json::{Value, json};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::field_format::printable_fields;

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
        false => subscriber
            .with_ansi(io::stderr().is_terminal())
            .fmt_fields(printable_fields())
            .init(),
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

/// Prints a line that no filter discards. In a text log, escapes line ends and other unprintable
/// characters in it.
pub(crate) fn log_unfiltered(text: impl Display) {
    let text = text.to_string();
    match is_json() {
        true => write_line(&json_line("INFO", json!({ "message": text }))),
        false => write_line(&printable(&text)),
    }
}

/// Prints text that this process made, as it is. It may have several lines, and no filter discards
/// it.
pub(crate) fn log_text(text: impl Display) {
    match is_json() {
        true => log_unfiltered(text),
        false => write_line(&text.to_string()),
    }
}

/// Prints an error that does not end the process.
pub(crate) fn print_error(text: impl Display) {
    let text = text.to_string();
    write_line(&error_line(&text, &printable(&text)));
}

/// Prints why the process ends, as its last line, and ends it. In a text log, escapes line ends and
/// other unprintable characters: a server may have sent the text.
pub(crate) fn exit_with_error(error: impl Display, code: i32) -> ! {
    let text = error.to_string();
    exit_with_line(&error_line(&text, &printable(&text)), code)
}

/// Prints what to do about bad input, which may take several lines, and ends the process.
pub(crate) fn exit_with_advice(text: impl Display, code: i32) -> ! {
    let text = text.to_string();
    exit_with_line(&error_line(&text, &printable_lines(&text)), code)
}

fn exit_with_line(line: &str, code: i32) -> ! {
    let _lock = io::stderr().lock();
    write_line(line);
    process::exit(code)
}

/// Writes a line to stderr.
fn write_line(line: &str) {
    // Nothing can be done if stderr is closed.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Returns the line of an error in the format of the log. A text log has `shown`.
fn error_line(text: &str, shown: &str) -> String {
    match is_json() {
        true => json_line("ERROR", json!({ "message": text })),
        false => format!("error: {shown}"),
    }
}

/// Returns text with its unprintable characters escaped, except line ends.
fn printable_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(printable).collect();
    lines.join("\n")
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

    /// Attack: a value of a field, a message or an error text has line ends and codes for the
    /// terminal. The lines are written by another process, since the log starts once a process.
    #[test]
    fn text_of_others_stays_on_its_line() {
        const CHILD: &str = "SEQSVR_TEST_TEXT_CHILD";
        const TEXT: &str = "a1\n2026-01-01 ERROR seqsvr: forged\r\u{1b}[2J\u{9b}31m\u{202e}";
        if let Some(format) = env::var_os(CHILD) {
            let json = format == "json";
            set_format(if json {
                LogFormat::Json
            } else {
                LogFormat::Text
            });
            start_logging(EnvFilter::new("debug"));
            let error = anyhow::anyhow!("no such name: {TEXT}");
            tracing::debug!(address = TEXT, name = %TEXT, error = ?error, "rejected {TEXT}");
            log_unfiltered(format_args!("waiting: {TEXT}"));
            super::super::exit_code::report_and_exit(&error);
        }
        for format in ["text", "json"] {
            let name = "output::log::tests::text_of_others_stays_on_its_line";
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture"])
                .env(CHILD, format)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(1));
            let log = String::from_utf8(output.stderr).unwrap();
            let lines: Vec<&str> = log.lines().collect();
            assert_eq!(lines.len(), 3, "{log}");
            for line in lines {
                assert!(line.contains("forged"), "{log}");
                if format == "json" {
                    assert!(!line.contains(['\r', '\u{1b}']), "{line:?}");
                    assert!(line.contains(r"a1\n2026"), "{line}");
                    serde_json::from_str::<Value>(line).unwrap();
                } else {
                    let unprintable = seqsvr_proto::printable::is_unprintable;
                    assert!(!line.contains(unprintable), "{line:?}");
                    assert!(line.contains(r"a1\u{a}2026"), "{line}");
                }
            }
        }
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
