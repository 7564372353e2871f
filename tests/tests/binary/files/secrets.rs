//! Passwords and tokens of an AllocSvr: never empty, never on the command line, and no guess of one
//! is free.
//!
//! Runs the binary with secrets from all sources; only the last test starts servers that serve.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use seqsvr_test_support::process::ServerProcess;
use seqsvr_test_support::wait::wait_until;

use super::set_mode;
use crate::dev::{DevServer, clean_command, expect_failure, free_port};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The secrets, and the flag that each needs.
const SECRETS: [(&str, &str, &str); 2] = [
    ("redis-password", "SEQSVR_REDIS_PASSWORD", "--redis-listen"),
    ("tinyid-token", "SEQSVR_TINYID_TOKEN", "--http-listen"),
];

/// Returns an AllocSvr whose last mistake is that this address is in use.
fn alloc_at(listen: &str, endpoint_flag: &str) -> Command {
    let mut command = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    command.args(["--listen", listen, endpoint_flag, "127.0.0.1:0"]);
    command
}

#[test]
fn secret_on_the_command_line_is_rejected() {
    for (key, variable, endpoint_flag) in SECRETS {
        let (flag, joined) = (format!("--{key}"), format!("--{key}=hunter2"));
        for args in [vec![flag.as_str(), "hunter2"], vec![joined.as_str()]] {
            let mut command = alloc_at("127.0.0.1:0", endpoint_flag);
            // A valid source does not excuse it.
            command.args(&args).env(variable, "hunter3");
            let errors = expect_failure(command, 2);
            for words in [
                format!("error: --{key} on the command line"),
                format!("--{key}-file"),
                variable.to_owned(),
            ] {
                assert!(errors.contains(&words), "{errors}");
            }
            assert!(!errors.contains("hunter"), "{errors}");
        }
    }
    let help = clean_command(&["alloc", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for (key, variable, _) in SECRETS {
        assert!(help.contains(&format!("--{key}-file <FILE>")), "{help}");
        assert!(!help.contains(&format!("--{key} ")), "{help}");
        assert!(help.contains(variable), "{help}");
    }
}

#[test]
fn empty_secret_is_rejected_from_every_source() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let (config, file) = (dir.path().join("seqsvr.toml"), dir.path().join("secret"));
    for (key, variable, endpoint_flag) in SECRETS {
        for (secret, code) in [("", 2), ("hunter2", 1)] {
            let assert_code = |command: Command, source: &str| {
                let errors = expect_failure(command, code);
                let words = if code == 1 { "in use" } else { source };
                assert!(errors.contains(words), "{errors}");
                assert!(!errors.contains("hunter2"), "{errors}");
            };
            let mut by_variable = alloc_at(&listen, endpoint_flag);
            by_variable.env(variable, secret);
            assert_code(by_variable, variable);

            fs::write(&config, format!("[alloc]\n{key} = \"{secret}\"\n")).unwrap();
            let mut by_key = alloc_at(&listen, endpoint_flag);
            by_key.arg("--config").arg(&config);
            assert_code(by_key, key);
            let mut check = clean_command(&["config", "check"]);
            let check = check.arg(&config).output().unwrap();
            let is_valid = check.status.code() == Some(0);
            assert_eq!(is_valid, !secret.is_empty(), "{check:?}");

            fs::write(&file, format!("{secret}\n")).unwrap();
            let flag = format!("--{key}-file");
            let mut by_file = alloc_at(&listen, endpoint_flag);
            by_file.arg(&flag).arg(&file);
            assert_code(by_file, &format!("{flag} {}: it has no", file.display()));
        }
        let mut twice = alloc_at(&listen, endpoint_flag);
        twice.arg(format!("--{key}-file")).arg(&file);
        twice.env(variable, "hunter2");
        let errors = expect_failure(twice, 2);
        assert!(errors.contains("keep one of them"), "{errors}");
        let text = format!("[alloc]\n{key} = \"a\"\n{key}-file = \"b\"\n");
        fs::write(&config, text).unwrap();
        let mut check = clean_command(&["config", "check"]);
        let check = check.arg(&config).output().unwrap();
        let text = String::from_utf8_lossy(&check.stdout).into_owned();
        assert_eq!(check.status.code(), Some(2), "{text}");
        assert!(text.contains("keep one of them"), "{text}");
    }
}

/// Sends bytes and returns all that arrives until the other end closes.
fn exchange(port: u16, bytes: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    received
}

/// Returns the sum of the counts that the log has for a secret, and the number of its lines.
fn logged_guesses(log: &str, secret: &str) -> (u64, usize) {
    let named = format!("secret=\"{secret}\"");
    let lines = log.lines().filter(|line| line.contains(&named));
    let counts = lines.map(|line| {
        let (_, count) = line.split_once(" count=").unwrap();
        count.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    let counts: Vec<u64> = counts.collect();
    (counts.iter().sum(), counts.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_of_secrets_are_slow_and_logged() {
    let dev = DevServer::start_with(&["--redis-port", "0", "--http-port", "0"]);
    let [listen, redis, http] = [free_port(), free_port(), free_port()];
    let [password, token] = ["password", "token"].map(|name| {
        let path = dev.dir.path().join(name);
        fs::write(&path, format!("right-{name}\n")).unwrap();
        path
    });
    set_mode(&password, 0o644);
    set_mode(&token, 0o640);
    let args = vec![
        "alloc".to_owned(),
        "--name=a9".into(),
        format!("--stores=127.0.0.1:{}", dev.store_port),
        format!("--listen=127.0.0.1:{listen}"),
        format!("--redis-listen=127.0.0.1:{redis}"),
        format!("--http-listen=127.0.0.1:{http}"),
        format!("--redis-password-file={}", password.display()),
        format!("--tinyid-token-file={}", token.display()),
    ];
    let mut alloc = ServerProcess::start(dev.dir.path(), "a9", args);
    wait_until("the endpoints", TEST_TIMEOUT, async || {
        TcpStream::connect(("127.0.0.1", http)).ok()
    })
    .await;

    let began = Instant::now();
    let guesses: String = (0..1_000).map(|n| format!("AUTH {n}\r\n")).collect();
    let received = exchange(redis, &guesses);
    let took = began.elapsed();
    assert_eq!(received.matches("-WRONGPASS ").count(), 3, "{received}");
    assert_eq!(received.lines().count(), 3, "{received}");
    assert!(took >= Duration::from_secs(3), "three guesses in {took:?}");
    let received = exchange(redis, "AUTH right-password\r\nPING\r\nQUIT\r\n");
    assert_eq!(received, "+OK\r\n+PONG\r\n+OK\r\n");

    let request = |token: &str| {
        format!(
            "GET /tinyid/id/nextIdSimple?bizType=default&token={token} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )
    };
    let began = Instant::now();
    let received = exchange(http, &request("wrong"));
    let took = began.elapsed();
    assert!(received.contains("content-length: 0\r\n"), "{received}");
    assert!(took >= Duration::from_secs(1), "a guess in {took:?}");
    wait_until("a number", TEST_TIMEOUT, async || {
        let received = exchange(http, &request("right-token"));
        received
            .ends_with(|c: char| c.is_ascii_digit())
            .then_some(())
    })
    .await;

    alloc.stop(TEST_TIMEOUT).await;
    let log = alloc.log();
    assert_eq!(logged_guesses(&log, "Redis password"), (3, 2), "{log}");
    assert_eq!(logged_guesses(&log, "Tinyid token"), (1, 1), "{log}");
    let warnings = log.lines().filter(|line| line.contains("chmod 600"));
    let warnings: Vec<_> = warnings.collect();
    assert!(
        matches!(*warnings, [line] if line.contains("password") && line.contains("0644")),
        "{log}"
    );
}
