//! Bad input on the command line: each mistake gives a clear error with the right exit code.
//!
//! Runs the binary with wrong flags, keys and directories, and checks that the server's state is
//! unchanged.

use crate::dev::{Dev, command, fails, free_port, refused};

/// Asserts that a client command is rejected as bad input (exit 2) in words that contain `words`.
fn bad(dev: &Dev, args: &[&str], words: &[&str]) {
    let text = refused(&dev.ask(args), 2);
    for word in words {
        assert!(
            text.contains(word),
            "{args:?} says {text:?}, without {word:?}"
        );
    }
}

#[test]
fn bad_requests_are_refused_and_do_no_harm() {
    let dev = Dev::start();
    assert_eq!(dev.done(&["next", "42"]), "1\n");
    bad(
        &dev,
        &["next", "42", "--count", "0"],
        &["count must be 1 to 100000, not 0"],
    );
    bad(
        &dev,
        &["next", "42", "--count", "100001"],
        &["count must be 1 to 100000, not 100001"],
    );
    bad(
        &dev,
        &["next", "42", "--count", "many"],
        &["invalid value 'many'"],
    );
    bad(
        &dev,
        &["next", "42", "--namespace", "nowhere"],
        &["no namespace \"nowhere\"", "create"],
    );
    bad(&dev, &["next", ""], &["1 to 128 bytes, not 0"]);
    bad(
        &dev,
        &["next", &"k".repeat(129)],
        &["1 to 128 bytes, not 129"],
    );
    bad(
        &dev,
        &["next", "alice", "--namespace", "default"],
        &["takes a uid", "keys"],
    );
    bad(
        &dev,
        &["next", "4294967296"],
        &["4294967296", "max_uid", "keyed"],
    );
    bad(&dev, &["raise-to", "42", "soon"], &["invalid value 'soon'"]);
    bad(&dev, &["raise-to", "42", "0"], &["0 is not in"]);
    bad(
        &dev,
        &["raise-to", "42", "9000000000000000000"],
        &["bound", "force"],
    );
    bad(&dev, &["next", "42", "--timeout", "soon"], &["20s"]);
    bad(&dev, &["next", "42", "--floor", "77"], &["floor"]);
    bad(&dev, &["namespace", "create", "bad name"], &["a-z"]);
    bad(
        &dev,
        &["namespace", "create", "n", "--stride", "2", "--offset", "2"],
        &["offset must be below the stride"],
    );
    bad(
        &dev,
        &["namespace", "create", "n", "--keyed", "--max-uid", "7"],
        &["cannot be used with"],
    );
    bad(
        &dev,
        &["namespace", "alter", "keys", "--strict", "maybe"],
        &["true", "false"],
    );
    assert!(
        dev.done(&["next", "k", "--namespace", "keys"])
            .starts_with('1')
    );
    // A discarded number is a gap, never a repeat: `--floor 77` above cost one.
    assert_eq!(dev.done(&["next", "42"]), "3\n");
}

#[test]
fn a_sequence_ends_with_a_clear_error() {
    let dev = Dev::start();
    let start = (i64::MAX as u64 - 2).to_string();
    dev.done(&["namespace", "create", "last", "--start", &start]);
    assert_eq!(
        dev.done(&["next", "1", "-n", "last", "-c", "2"]),
        format!("{}\n{}\n", i64::MAX - 2, i64::MAX - 1)
    );
    assert_eq!(
        dev.done(&["next", "1", "-n", "last"]),
        format!("{}\n", i64::MAX)
    );
    bad(&dev, &["next", "1", "-n", "last"], &["2^63-1"]);
    assert_eq!(
        dev.done(&["next", "2", "-n", "last"]),
        format!("{}\n", i64::MAX - 2),
        "a neighbour is unharmed"
    );
    assert_eq!(
        dev.done(&["current", "1", "-n", "last"]),
        format!("{}\n", i64::MAX)
    );
}

#[test]
fn nobody_there() {
    let server = format!("127.0.0.1:{}", free_port());
    let text = fails(
        command(&["next", "42", "--timeout", "1s", "--server", &server]),
        3,
    );
    assert!(text.contains(&server) && text.contains("refused"), "{text}");
    let text = fails(command(&["next", "42", "--server", "not an address"]), 2);
    assert!(text.contains("not an address"), "{text}");
    let stores = format!("1={server}");
    let text = fails(
        command(&["init", "--timeout", "1s", "--stores", &stores]),
        3,
    );
    assert!(
        text.contains(&server) && text.contains("seqsvr store --id 1"),
        "{text}"
    );
    let text = fails(command(&["init", "--stores", "A,B"]), 2);
    assert!(text.contains("id=address"), "{text}");
}

#[test]
fn addresses_and_directories_of_others() {
    let mut dev = Dev::start();
    let (port, store_port) = (dev.port.to_string(), dev.store_port.to_string());
    let data = dev.data();
    let store_1 = data.join("store-1");

    // The address is in use.
    let other = tempfile::tempdir().unwrap();
    let mut second = command(&[
        "dev",
        "--port",
        &port,
        "--store-port",
        &store_port,
        "--data-dir",
    ]);
    second.arg(other.path());
    let text = fails(second, 1);
    assert!(
        text.contains(&format!("127.0.0.1:{store_port}")) && text.contains("in use"),
        "{text}"
    );
    let stores = format!("127.0.0.1:{store_port}");
    let text = fails(
        command(&[
            "alloc",
            "--name",
            "b",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--stores",
            &stores,
        ]),
        1,
    );
    assert!(text.contains(&port) && text.contains("--listen"), "{text}");

    // The address of the Redis endpoint is in use: a requested endpoint must be available.
    let alone = tempfile::tempdir().unwrap();
    let (free, store_free) = (free_port().to_string(), free_port().to_string());
    let mut second = command(&["dev", "--port", &free, "--store-port", &store_free]);
    second.args(["--redis-port", &port, "--data-dir"]);
    second.arg(alone.path());
    let text = fails(second, 1);
    assert!(
        text.contains(&port) && text.contains("--redis-port"),
        "{text}"
    );
    let text = fails(
        command(&[
            "alloc",
            "--name",
            "b",
            "--listen",
            &format!("127.0.0.1:{free}"),
            "--redis-listen",
            &format!("127.0.0.1:{port}"),
            "--stores",
            &stores,
        ]),
        1,
    );
    assert!(
        text.contains(&port) && text.contains("--redis-listen"),
        "{text}"
    );

    // The directory is in use by a running store.
    let listen = format!("127.0.0.1:{}", free_port());
    let store = |id: &str| {
        let mut store = command(&["store", "--id", id, "--listen", &listen, "--data-dir"]);
        store.arg(&store_1);
        store
    };
    let text = fails(store("1"), 1);
    assert!(text.contains("store-1"), "{text}");

    // The directory belongs to another store.
    dev.kill();
    let text = fails(store("2"), 1);
    assert!(
        text.contains("store-1") && text.contains('1') && text.contains('2'),
        "{text}"
    );

    // Initialized with another number of stores.
    let mut more = command(&[
        "dev",
        "--stores",
        "3",
        "--port",
        &port,
        "--store-port",
        &store_port,
        "--data-dir",
    ]);
    more.arg(&data);
    let text = fails(more, 2);
    assert!(text.contains("made with 1 stores"), "{text}");
}

/// `seqsvr … | head`: a reader that closes the pipe early is no error.
#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let dev = Dev::start();
    let mut child = command(&["next", "42", "--count", "100000"])
        .env("SEQSVR_SERVER", format!("127.0.0.1:{}", dev.port))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
