//! The log on stderr, as text or as one JSON object a line.
//!
//! A server never waits for the reader of its log: see [`line_queue`](super::line_queue).
//!
//! Nothing follows the last line, so the reason of an exit is always the last line. Threads of the
//! storage run for a moment after `main` has the result. A server closes its queue behind the last
//! line. A command prints it under the lock of stderr and never releases it: a thread that logs or
//! panics then waits until the process ends.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::borrow::Cow;
use std::fmt::{Display, Write as _};
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
use super::server_streams::ServerStreams;
use super::stdout;

/// Beginning of the messages of panics after which the process aborts.
const ABORTING_PANIC: &str = "panic in a ";

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

/// Waits at the end of `main` until the readers of a server have its last lines, at most for 1 s.
#[must_use]
pub(crate) struct OutputGuard;

impl Drop for OutputGuard {
    fn drop(&mut self) {
        if let Some(streams) = ServerStreams::get() {
            streams.close(None);
        }
    }
}

/// Moves all output of this process to threads of its own, since it is a server. Lines that are
/// logged when the guard is dropped are the last ones.
///
/// # Errors
/// A thread cannot be started.
pub(crate) fn start_server_streams() -> io::Result<OutputGuard> {
    ServerStreams::start(dropped_line)?;
    Ok(OutputGuard)
}

/// Starts to log the events that pass `filter`, and panics, to stderr, until [`exit_with_error`].
pub(crate) fn start_logging(filter: EnvFilter) {
    let subscriber = tracing_subscriber::fmt()
        // It would print such errors on its own, and wait for the reader.
        .log_internal_errors(false)
        .with_writer(|| StderrWriter)
        .with_env_filter(filter);
    match is_json() {
        true => subscriber.json().init(),
        false => subscriber
            .with_ansi(io::stderr().is_terminal())
            .fmt_fields(printable_fields())
            .init(),
    }
    panic::set_hook(Box::new(|panic| {
        match is_json() {
            true => write_line(&panic_line(panic)),
            false => write_line(&panic_text(panic)),
        }
        let aborts = panic.payload_as_str();
        if aborts.is_some_and(|message| message.starts_with(ABORTING_PANIC))
            && let Some(streams) = ServerStreams::get()
        {
            // The process ends when this returns, and the queue with it.
            streams.wait_until_written();
        }
    }));
}

/// Writer of the events of `tracing`, which writes each of them at once.
struct StderrWriter;

impl Write for StderrWriter {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = match is_json() {
            true => stdout::escape_in_json(&text),
            // `printable_fields` has escaped the values.
            false => Cow::Borrowed(&*text),
        };
        match ServerStreams::get() {
            Some(streams) => streams.stderr.push(&text),
            // Nothing can be done if stderr is closed.
            None => drop(io::stderr().write_all(text.as_bytes())),
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

/// Prints text of a server to stdout, as it is. A server continues when its stdout is closed.
pub(crate) fn print_server_text(text: impl Display) {
    match ServerStreams::get() {
        Some(streams) => streams.stdout.push(&text.to_string()),
        None => drop(stdout::print_text(text)),
    }
}

/// Prints an error that does not end the process.
pub(crate) fn print_error(text: impl Display) {
    let text = text.to_string();
    write_line(&error_line(&text, &printable(&text)));
}

/// Prints a warning about a result.
pub(crate) fn print_warning(text: impl Display) {
    let text = text.to_string();
    match is_json() {
        true => write_line(&json_line("WARN", json!({ "message": text }))),
        false => write_line(&format!("warning: {}", printable(&text))),
    }
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
    if let Some(streams) = ServerStreams::get() {
        streams.close(Some(line));
        process::exit(code)
    }
    let _lock = io::stderr().lock();
    write_line(line);
    process::exit(code)
}

/// Writes a line to stderr.
fn write_line(line: &str) {
    if let Some(streams) = ServerStreams::get() {
        return streams.stderr.push(line);
    }
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

/// Returns the line that stands for dropped lines.
fn dropped_line(lines: u64) -> String {
    let message = "log lines dropped: no reader took them in time; check what reads this log";
    match is_json() {
        true => json_line("WARN", json!({ "message": message, "lines": lines })),
        false => format!("{}  WARN seqsvr: {message} lines={lines}", timestamp()),
    }
}

fn timestamp() -> String {
    let mut time = String::new();
    // Writing to a string cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    time
}

/// Returns a JSON line in the format of `tracing-subscriber`.
fn json_line(level: &str, fields: Value) -> String {
    let time = timestamp();
    let line = json!({ "timestamp": time, "level": level, "fields": fields, "target": "seqsvr" });
    stdout::escape_in_json(&line.to_string()).into_owned()
}

/// Returns the message of a panic.
fn panic_message<'a>(panic: &'a PanicHookInfo) -> &'a str {
    panic
        .payload_as_str()
        .unwrap_or("a panic without a message")
}

/// Returns the lines of a panic in a text log.
fn panic_text(panic: &PanicHookInfo) -> String {
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("<unnamed>");
    let mut text = format!("thread '{thread}' panicked");
    // Writing to a string cannot fail.
    if let Some(location) = panic.location() {
        let _ = write!(text, " at {location}");
    }
    let _ = write!(text, ":\n{}", printable_lines(panic_message(panic)));
    let trace = Backtrace::capture();
    match trace.status() {
        BacktraceStatus::Captured => {
            let _ = write!(text, "\nstack backtrace:\n{trace}");
        }
        _ => text.push_str("\nnote: run with `RUST_BACKTRACE=1` to see a backtrace"),
    }
    text
}

/// Returns the JSON line of a panic.
fn panic_line(panic: &PanicHookInfo) -> String {
    let message = panic_message(panic);
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
mod tests;
