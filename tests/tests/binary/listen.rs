//! Addresses on which a server listens: routable ones are rejected before anything exists,
//! unless `--insecure` allows them.
//!
//! Runs the binary with addresses of all kinds; no server serves.

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;

use crate::dev::{clean_command, expect_failure, free_port};

fn alloc_command(dir: &Path, listen: &str) -> Command {
    let mut command = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    command.args(["--listen", listen, "--state-dir"]);
    command.arg(dir.join("new/state"));
    command
}

fn store_command(dir: &Path, listen: &str) -> Command {
    let mut command = clean_command(&["store", "--id", "1", "--listen", listen, "--data-dir"]);
    command.arg(dir.join("new/data"));
    command
}

/// Asserts that a server exits with code 2, names the flag and the ways out, and makes nothing.
fn assert_rejected(command: Command, dir: &Path, flag: &str, address: &str) {
    let errors = expect_failure(command, 2);
    let begin = format!("error: {flag} {address}: other machines can reach this address");
    assert!(errors.starts_with(&begin), "{errors}");
    let (_, port) = address.rsplit_once(':').unwrap();
    for way in [format!("{flag} 127.0.0.1:{port} "), "--insecure ".into()] {
        assert!(errors.contains(&way), "{errors}");
    }
    assert!(!dir.join("new").exists(), "a directory was made");
}

/// Returns an address of this machine that is not loopback, if there is one.
fn own_address() -> Option<String> {
    // It sends nothing: the system only selects a route.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[test]
fn routable_listen_address_is_rejected_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    // A server that opened its port first would report that the address is in use, with code 1.
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut hosts = vec![
        "0.0.0.0".to_owned(),
        "[::]".into(),
        "[::ffff:0.0.0.0]".into(),
    ];
    match own_address() {
        Some(address) => hosts.push(address),
        None => println!("SKIPPED: this machine has no address but loopback"),
    }
    for host in hosts {
        let address = format!("{host}:{port}");
        assert_rejected(
            alloc_command(dir.path(), &address),
            dir.path(),
            "--listen",
            &address,
        );
        assert_rejected(
            store_command(dir.path(), &address),
            dir.path(),
            "--listen",
            &address,
        );
    }
}

#[test]
fn each_routable_endpoint_is_rejected_by_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let loopback = taken.local_addr().unwrap().to_string();
    let routable = format!("0.0.0.0:{}", free_port());
    for flag in ["--redis-listen", "--http-listen"] {
        let mut alloc = alloc_command(dir.path(), &loopback);
        alloc.args([flag, &routable]);
        assert_rejected(alloc, dir.path(), flag, &routable);
    }
    let mut store = store_command(dir.path(), &loopback);
    store.args(["--http-listen", &routable]);
    assert_rejected(store, dir.path(), "--http-listen", &routable);
    // From the environment as well.
    let mut store = store_command(dir.path(), &loopback);
    store.env("SEQSVR_HTTP_LISTEN", &routable);
    assert_rejected(store, dir.path(), "--http-listen", &routable);
}

/// With `insecure` the next mistake is reported: the address is in use.
#[test]
fn insecure_is_a_flag_a_variable_and_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = dir.path().join("seqsvr.toml");
    let set_file = |insecure: &str| {
        let text = format!("[alloc]\nlisten = \"{address}\"\ninsecure = {insecure}\n");
        std::fs::write(&file, text).unwrap();
    };
    let alloc = || clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    let with_file = || {
        let mut command = alloc();
        command.env("SEQSVR_CONFIG", &file);
        command
    };

    let mut by_flag = alloc();
    by_flag.args(["--insecure", "--listen", &address]);
    let mut by_variable = alloc();
    by_variable.args(["--listen", &address]);
    by_variable.env("SEQSVR_INSECURE", "1");
    set_file("true");
    for command in [by_flag, by_variable, with_file()] {
        let errors = expect_failure(command, 1);
        assert!(
            errors.contains("--listen") && errors.contains(&address),
            "{errors}"
        );
    }

    // The environment overrides the file.
    let mut command = with_file();
    command.env("SEQSVR_INSECURE", "false");
    let errors = expect_failure(command, 2);
    assert!(errors.contains("other machines can reach"), "{errors}");
    set_file("false");
    let errors = expect_failure(with_file(), 2);
    assert!(errors.contains("other machines can reach"), "{errors}");
    set_file("\"yes\"");
    let errors = expect_failure(with_file(), 2);
    assert!(
        errors.contains("[alloc] insecure: use true or false"),
        "{errors}"
    );
}
