//! Tokens of callers at an AllocSvr, and the shared secrets that they replaced.
//!
//! The first test runs the binary with a former secret from each source; only the last starts
//! servers that serve.

use std::fs;
use std::process::Command;

use crate::dev::{clean_command, expect_failure};

/// Returns an AllocSvr that would start.
fn alloc() -> Command {
    let mut command = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    for flag in ["--listen", "--redis-listen", "--http-listen"] {
        command.args([flag, "127.0.0.1:0"]);
    }
    command
}

/// Schedule: an operator keeps a variable of a former build, the server ignores it, and every
/// program of the host takes numbers.
#[test]
fn former_secret_is_rejected_from_every_source_and_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("seqsvr.toml");
    let assert_rejected = |mut command: Command, key: &str| {
        command.args(["--log-format", "text"]);
        let errors = expect_failure(command, 2);
        for words in [key, "is gone", "seqsvr auth add", "--auth-file"] {
            assert!(errors.contains(words), "{words}: {errors}");
        }
        assert!(!errors.contains("hunter"), "{errors}");
    };
    for (key, variable) in [
        ("redis-password", Some("SEQSVR_REDIS_PASSWORD")),
        ("redis-password-file", None),
        ("tinyid-token", Some("SEQSVR_TINYID_TOKEN")),
        ("tinyid-token-file", None),
    ] {
        for secret in ["", "hunter2"] {
            let mut by_flag = alloc();
            by_flag.arg(format!("--{key}={secret}"));
            assert_rejected(by_flag, key);
            if let Some(variable) = variable {
                let mut by_variable = alloc();
                by_variable.env(variable, secret);
                assert_rejected(by_variable, variable);
            }
            fs::write(&config, format!("[alloc]\n{key} = \"{secret}\"\n")).unwrap();
            let mut by_key = alloc();
            by_key.arg("--config").arg(&config);
            assert_rejected(by_key, key);
            let check = clean_command(&["config", "check"]).arg(&config).output();
            let check = check.unwrap();
            let text = String::from_utf8_lossy(&check.stdout).into_owned();
            assert_eq!(check.status.code(), Some(2), "{text}");
            assert!(
                text.contains("is gone") && !text.contains("hunter"),
                "{text}"
            );
        }
    }
    let help = clean_command(&["alloc", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for word in ["redis-password", "tinyid-token", "PASSWORD"] {
        assert!(!help.contains(word), "{help}");
    }
}
