//! Log of a process: `--log-format json` makes every line of stderr one JSON object, however the
//! process ends; servers continue when no process reads their log.
//!
//! Runs servers and commands that fail or wait, and parses every line.

mod hung_reader;
mod trace;

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::dev::{clean_command, free_port};

/// Runs a command that must end with `code`. Returns the lines of its log, each with a time, a
/// level and a message.
fn run_logged(mut command: Command, code: i32) -> Vec<Value> {
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    let lines = errors.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        for part in ["timestamp", "level", "target"] {
            assert!(line[part].is_string(), "{line}");
        }
        assert!(line["fields"]["message"].is_string(), "{line}");
        line
    });
    lines.collect()
}

fn last_error(lines: &[Value]) -> &str {
    let last = lines.last().unwrap();
    assert_eq!(last["level"], "ERROR", "{last}");
    last["fields"]["message"].as_str().unwrap()
}

#[test]
fn json_log_lines_are_all_json() {
    // A server that cannot continue.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let store = |format: &[&str]| {
        let dir = tempfile::tempdir().unwrap();
        let mut store = clean_command(&["store", "--id", "1", "--listen", &listen]);
        store.arg("--data-dir").arg(dir.path());
        store.args(format);
        (store, dir)
    };
    let (json, _dir) = store(&["--log-format", "json"]);
    assert!(last_error(&run_logged(json, 1)).contains(&listen));
    let (mut json, _dir) = store(&[]);
    json.env("SEQSVR_LOG_FORMAT", "json");
    assert!(last_error(&run_logged(json, 1)).contains(&listen));
    let (text, _dir) = store(&[]);
    let errors_text = crate::dev::expect_failure(text, 1);
    assert!(
        errors_text.lines().last().unwrap().starts_with("error: "),
        "{errors_text}"
    );

    // A command that waits logs it, next to the libraries' lines, and then logs its failure.
    let unused_address = format!("127.0.0.1:{}", free_port());
    let mut next = clean_command(&["next", "42", "--server", &unused_address, "--timeout", "2s"]);
    next.args(["--log-format", "json", "--log", "debug"]);
    let lines = run_logged(next, 3);
    assert!(
        lines.iter().any(|line| line["level"] == "DEBUG"),
        "{lines:?}"
    );
    let waits = |line: &Value| {
        line["fields"]["message"]
            .as_str()
            .unwrap()
            .contains("waiting")
    };
    assert!(lines.iter().any(waits), "{lines:?}");
    assert!(last_error(&lines).contains(&unused_address));
}

#[test]
fn json_log_reports_bad_input() {
    for (args, words) in [
        (&["alloc"][..], "--name"),
        (&["next", "42", "--log", "a=b=c"], "--log"),
        (
            &["next", "42", "--config", "/no/such/file"],
            "/no/such/file",
        ),
    ] {
        let mut json = clean_command(args);
        json.env("SEQSVR_LOG_FORMAT", "json");
        let lines = run_logged(json, 2);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(last_error(&lines).contains(words), "{lines:?}");
    }
    let errors_text =
        crate::dev::expect_failure(clean_command(&["next", "42", "--log-format", "xml"]), 2);
    assert!(
        errors_text.contains("possible values: text, json"),
        "{errors_text}"
    );
}

#[test]
fn json_log_contains_the_startup_banner() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = clean_command(&["store", "--id", "1", "--log-format", "json", "--data-dir"]);
    store
        .arg(dir.path().join("data"))
        .args(["--listen", &format!("127.0.0.1:{}", free_port())]);
    let errors = std::fs::File::create(dir.path().join("log")).unwrap();
    let store = store.stdout(std::process::Stdio::piped()).stderr(errors);
    let mut child = store.spawn().unwrap();
    let read = || std::fs::read_to_string(dir.path().join("log")).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !read().contains("seqsvr init") && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty(), "{:?}", output.stdout);
    let log = read();
    let screen = log.lines().find(|line| line.contains("seqsvr init"));
    let screen: Value = serde_json::from_str(screen.unwrap()).unwrap();
    let text = screen["fields"]["message"].as_str().unwrap();
    assert!(text.contains("\n  address "), "{text}");
}
