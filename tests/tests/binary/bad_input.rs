//! Bad input on the command line: each mistake gives a clear error with the right exit code.
//!
//! Runs the binary with wrong flags, keys and directories, and checks that the server's state is
//! unchanged.

use crate::dev::{DevServer, clean_command, expect_exit_code, expect_failure, free_port};

/// Asserts that a client command is rejected as bad input (exit 2) in words that contain `words`.
fn assert_bad_input(dev: &DevServer, args: &[&str], words: &[&str]) {
    let text = expect_exit_code(&dev.run_client(args), 2);
    for word in words {
        assert!(
            text.contains(word),
            "{args:?} says {text:?}, without {word:?}"
        );
    }
}

#[test]
fn cli_bad_requests_are_rejected_and_change_nothing() {
    let dev = DevServer::start();
    assert_eq!(dev.run_client_ok(&["next", "42"]), "1\n");
    assert_bad_input(
        &dev,
        &["next", "42", "--count", "0"],
        &["count must be 1 to 100000, not 0"],
    );
    assert_bad_input(
        &dev,
        &["next", "42", "--count", "100001"],
        &["count must be 1 to 100000, not 100001"],
    );
    assert_bad_input(
        &dev,
        &["next", "42", "--count", "many"],
        &["invalid value 'many'"],
    );
    assert_bad_input(
        &dev,
        &["next", "42", "--namespace", "nowhere"],
        &["no namespace \"nowhere\"", "create"],
    );
    assert_bad_input(&dev, &["next", ""], &["1 to 128 bytes, not 0"]);
    assert_bad_input(
        &dev,
        &["next", &"k".repeat(129)],
        &["1 to 128 bytes, not 129"],
    );
    assert_bad_input(
        &dev,
        &["next", "alice", "--namespace", "default"],
        &["takes a uid", "keys"],
    );
    assert_bad_input(
        &dev,
        &["next", "4294967296"],
        &["4294967296", "max_uid", "keyed"],
    );
    assert_bad_input(&dev, &["raise-to", "42", "soon"], &["invalid value 'soon'"]);
    assert_bad_input(&dev, &["raise-to", "42", "0"], &["0 is not in"]);
    assert_bad_input(
        &dev,
        &["raise-to", "42", "9000000000000000000"],
        &["limit", "force"],
    );
    assert_bad_input(&dev, &["next", "42", "--timeout", "soon"], &["20s"]);
    assert_bad_input(&dev, &["next", "42", "--floor", "77"], &["floor"]);
    assert_bad_input(&dev, &["namespace", "create", "bad name"], &["a-z"]);
    assert_bad_input(
        &dev,
        &["namespace", "create", "n", "--stride", "2", "--offset", "2"],
        &["offset must be below the stride"],
    );
    assert_bad_input(
        &dev,
        &["namespace", "create", "n", "--keyed", "--max-uid", "7"],
        &["cannot be used with"],
    );
    assert_bad_input(
        &dev,
        &["namespace", "alter", "keys", "--strict", "maybe"],
        &["true", "false"],
    );
    assert!(
        dev.run_client_ok(&["next", "k", "--namespace", "keys"])
            .starts_with('1')
    );
    // A discarded number is a gap, never a repeat: `--floor 77` above cost one.
    assert_eq!(dev.run_client_ok(&["next", "42"]), "3\n");
}

#[test]
fn exhausted_sequence_returns_a_clear_error() {
    let dev = DevServer::start();
    let start = (i64::MAX as u64 - 2).to_string();
    dev.run_client_ok(&["namespace", "create", "last", "--start", &start]);
    assert_eq!(
        dev.run_client_ok(&["next", "1", "-n", "last", "-c", "2"]),
        format!("{}\n{}\n", i64::MAX - 2, i64::MAX - 1)
    );
    assert_eq!(
        dev.run_client_ok(&["next", "1", "-n", "last"]),
        format!("{}\n", i64::MAX)
    );
    assert_bad_input(&dev, &["next", "1", "-n", "last"], &["2^63-1"]);
    assert_eq!(
        dev.run_client_ok(&["next", "2", "-n", "last"]),
        format!("{}\n", i64::MAX - 2),
        "a neighbor is unharmed"
    );
    assert_eq!(
        dev.run_client_ok(&["current", "1", "-n", "last"]),
        format!("{}\n", i64::MAX)
    );
}

#[test]
fn commands_without_a_server_name_its_address() {
    let server = format!("127.0.0.1:{}", free_port());
    let text = expect_failure(
        clean_command(&["next", "42", "--timeout", "1s", "--server", &server]),
        3,
    );
    assert!(text.contains(&server) && text.contains("refused"), "{text}");
    let text = expect_failure(
        clean_command(&["next", "42", "--server", "not an address"]),
        2,
    );
    assert!(text.contains("not an address"), "{text}");
    let stores = format!("1={server}");
    let text = expect_failure(
        clean_command(&["init", "--timeout", "1s", "--stores", &stores]),
        3,
    );
    assert!(
        text.contains(&server) && text.contains("seqsvr store --id 1"),
        "{text}"
    );
    let text = expect_failure(clean_command(&["init", "--stores", "A,B"]), 2);
    assert!(text.contains("id=address"), "{text}");
}

#[test]
fn addresses_and_directories_in_use_are_rejected() {
    let mut dev = DevServer::start();
    let (port, store_port) = (dev.port.to_string(), dev.store_port.to_string());
    let data = dev.data();
    let store_1 = data.join("store-1");

    // The address is in use.
    let other = tempfile::tempdir().unwrap();
    let mut second = clean_command(&[
        "dev",
        "--port",
        &port,
        "--store-port",
        &store_port,
        "--data-dir",
    ]);
    second.arg(other.path());
    let text = expect_failure(second, 1);
    assert!(
        text.contains(&format!("127.0.0.1:{store_port}")) && text.contains("in use"),
        "{text}"
    );
    let stores = format!("127.0.0.1:{store_port}");
    let text = expect_failure(
        clean_command(&[
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
    let mut second = clean_command(&["dev", "--port", &free, "--store-port", &store_free]);
    second.args(["--redis-port", &port, "--data-dir"]);
    second.arg(alone.path());
    let text = expect_failure(second, 1);
    assert!(
        text.contains(&port) && text.contains("--redis-port"),
        "{text}"
    );
    let text = expect_failure(
        clean_command(&[
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
        let mut store = clean_command(&["store", "--id", id, "--listen", &listen, "--data-dir"]);
        store.arg(&store_1);
        store
    };
    let text = expect_failure(store("1"), 1);
    assert!(text.contains("store-1"), "{text}");

    // The directory belongs to another store.
    dev.kill();
    let text = expect_failure(store("2"), 2);
    assert!(
        text.contains("store-1") && text.contains('1') && text.contains('2'),
        "{text}"
    );

    // Initialized with another number of stores.
    let mut more = clean_command(&[
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
    let text = expect_failure(more, 2);
    assert!(text.contains("created with 1 stores"), "{text}");
}

/// `seqsvr … | head`: a reader that closes the pipe early is no error.
#[test]
fn closed_output_pipe_ends_the_command_without_error() {
    let dev = DevServer::start();
    let mut child = clean_command(&["next", "42", "--count", "100000"])
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

/// Schedule: the operator repeats `init` with a longer lease, gets the id of the cluster as the
/// first time, and relies on a lease that the cluster does not have.
#[test]
fn repeated_init_or_dev_with_other_settings_is_rejected() {
    let mut dev = DevServer::start();
    let stores = format!("1=127.0.0.1:{}", dev.store_port);
    let init = |flags: &[&str]| {
        let mut command = clean_command(&["init", "--stores", &stores]);
        command.args(flags);
        command
    };
    let both = init(&["--lease-ms", "9000", "--slots", "64"]);
    let errors = expect_failure(both, 2);
    for words in [
        "--lease-ms is 9000, the cluster has 3000",
        "--slots is 64, the cluster has 1024",
    ] {
        assert!(errors.contains(words), "{errors}");
    }
    let errors = expect_failure(init(&["--slots", "64"]), 2);
    assert!(!errors.contains("--lease-ms"), "{errors}");
    // The same settings are done.
    for flags in [&[][..], &["--lease-ms", "3000", "--slots", "1024"]] {
        let output = init(flags).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout.len(), 33, "its id: {output:?}");
    }

    dev.kill();
    let ports = [free_port().to_string(), free_port().to_string()];
    let mut again = clean_command(&["dev", "--lease-ms", "9000", "--data-dir"]);
    again
        .arg(dev.data())
        .args(["--port", &ports[0], "--store-port", &ports[1]]);
    again.args([
        "--redis-port",
        "0",
        "--http-port",
        "0",
        "--store-http-port",
        "0",
    ]);
    let output = again.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("--lease-ms is 9000, the cluster has 3000"),
        "{errors}"
    );
}

/// Schedule: a backup is restored on two hosts, and each cluster has an AllocSvr. A caller has both
/// addresses. The server that answered first decided which of the two clusters a command acts on.
#[test]
fn commands_with_servers_of_two_clusters_are_rejected_with_both() {
    let devs = [DevServer::start(), DevServer::start()];
    let ids = devs.each_ref().map(|dev| {
        let status = dev.run_client_ok(&["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        status["cluster"].as_str().unwrap().to_owned()
    });
    let allocs = devs.each_ref().map(|dev| format!("127.0.0.1:{}", dev.port));
    let stores = devs
        .each_ref()
        .map(|dev| format!("127.0.0.1:{}", dev.store_port));
    for addresses in [&allocs, &stores] {
        let is_store = addresses == &stores;
        let new_store = format!("2=127.0.0.1:{}", free_port());
        for args in [
            &["next", "42"][..],
            &["raise-to", "42", "900"],
            &["bench", "--duration", "1s", "--connections", "4"],
            &["status"],
            &["member", "list"],
            &["member", "add", &new_store],
            &["slot", "drain", "a1"],
            &["namespace", "create", "orders"],
            &["backup", "-"],
        ] {
            let mut command = clean_command(args);
            command.args(["--server", &addresses.join(",")]);
            let errors = expect_failure(command, 2);
            for (address, id) in addresses.iter().zip(&ids) {
                let row = format!("{address} -> cluster {id}");
                assert!(
                    errors.contains(&row),
                    "{args:?}, stores {is_store}: {errors}"
                );
            }
        }
    }
    let mut alloc = clean_command(&["alloc", "--name", "a2", "--stores", &stores.join(",")]);
    alloc.args(["--listen", &format!("127.0.0.1:{}", free_port())]);
    let errors = String::from_utf8(alloc.output().unwrap().stderr).unwrap();
    for (address, id) in stores.iter().zip(&ids) {
        let row = format!("  {address} -> cluster {id}");
        assert!(errors.lines().any(|line| line == row), "{errors}");
    }
    for dev in &devs {
        assert_eq!(
            dev.run_client_ok(&["next", "42"]),
            "1\n",
            "nothing was done"
        );
        assert!(!dev.run_client_ok(&["namespace", "list"]).contains("orders"));
        assert_eq!(dev.run_client_ok(&["member", "list"]).lines().count(), 2);
    }
}

/// Schedule: the machine of one of two AllocSvrs is dead, or swallows packets.
#[test]
fn command_with_dead_or_silent_server_is_answered() {
    let dev = DevServer::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let dead = format!("127.0.0.1:{}", free_port());
    let silent_and_dead = format!("{silent},{dead},127.0.0.1:{}", dev.port);
    for expected in ["1\n", "2\n", "3\n"] {
        let output = clean_command(&["next", "42", "--server", &silent_and_dead])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
    }
}
