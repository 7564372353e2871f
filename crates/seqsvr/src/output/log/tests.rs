//! The log of a process: the tests run themselves in another process, since the log starts once a
//! process and some ends.

use std::env;
use std::io::Read;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Schedule: threads log and panic while the process prints its last line. They run in another
/// process, since that ends.
#[test]
fn nothing_follows_the_last_line() {
    const CHILD: &str = "SEQSVR_TEST_CHILD";
    if let Some(kind) = env::var_os(CHILD) {
        let _output = (kind == "server").then(|| start_server_streams().unwrap());
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
    for kind in ["command", "server"] {
        let output = child("nothing_follows_the_last_line", CHILD, kind)
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
}

/// Schedule: the reader of the log hangs and the queue is full; threads log and panic, and the
/// process ends.
#[test]
fn panic_with_full_queue_delays_neither_its_thread_nor_the_exit() {
    const CHILD: &str = "SEQSVR_TEST_HUNG_CHILD";
    if env::var_os(CHILD).is_some() {
        let _output = start_server_streams().unwrap();
        start_logging(EnvFilter::new("info"));
        let threads = [(); 4].map(|()| {
            thread::spawn(|| {
                while seqsvr_metrics::dropped_log_lines_sample().value < 100 {
                    tracing::info!("a disk fails");
                    let _ = panic::catch_unwind(|| panic!("a thread ends"));
                }
            })
        });
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        exit_with_error("it failed", 1);
    }
    let name = "panic_with_full_queue_delays_neither_its_thread_nor_the_exit";
    // It is read when the process has ended.
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut process = child(name, CHILD, "1").stderr(writer).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > Duration::from_secs(60) {
            process.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(1), "{status}");
    let mut errors = String::new();
    reader.read_to_string(&mut errors).unwrap();
    assert!(errors.contains("a disk fails") && errors.contains("a thread ends"));
}

/// A panic during the unwinding of another one aborts the process.
#[test]
fn panics_before_an_abort_are_logged() {
    const CHILD: &str = "SEQSVR_TEST_ABORT_CHILD";
    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("the second panic");
        }
    }
    if env::var_os(CHILD).is_some() {
        let _output = start_server_streams().unwrap();
        start_logging(EnvFilter::new("info"));
        let _panics = PanicOnDrop;
        panic!("the first panic");
    }
    let output = child("panics_before_an_abort_are_logged", CHILD, "1").output();
    let output = output.unwrap();
    assert!(!output.status.success(), "{}", output.status);
    let errors = String::from_utf8(output.stderr).unwrap();
    for text in ["the first panic", "the second panic", ABORTING_PANIC] {
        assert!(errors.contains(text), "{errors}");
    }
}

/// Returns a command that runs a test of this file in another process, with this variable.
fn child(test: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args([
            "--exact",
            &format!("output::log::tests::{test}"),
            "--nocapture",
        ])
        .env(variable, value);
    command
}

/// Attack: a value of a field, a message or an error text has line ends and codes for the
/// terminal. The lines are written by another process, since the log starts once a process.
#[test]
fn text_of_others_stays_on_its_line() {
    const CHILD: &str = "SEQSVR_TEST_TEXT_CHILD";
    const TEXT: &str =
        "a1\n2026-01-01 ERROR seqsvr: forged\r\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{feff}";
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
        let output = child("text_of_others_stays_on_its_line", CHILD, format)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        let log = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 3, "{log}");
        for line in lines {
            assert!(line.contains("forged"), "{log}");
            let unprintable = seqsvr_proto::printable::is_unprintable;
            assert!(!line.contains(unprintable), "{line:?}");
            if format == "json" {
                let line: Value = serde_json::from_str(line).unwrap();
                let message = line["fields"]["message"].as_str().unwrap();
                assert!(message.ends_with(TEXT), "{message:?}");
            } else {
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
