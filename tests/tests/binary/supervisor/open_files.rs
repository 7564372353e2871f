//! A supervisor that lets a server open few files (`LimitNOFILE=`, `ulimit -n`).
//!
//! Attack: idle connections, more than the server may open files. They leave what the server needs
//! for its own files and connections.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use seqsvr_test_support::process::release_binary;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::dev::{clean_command, expect_exit_code, free_port};

/// Words of the warning that a server logs once if it lowers limits.
const LOWERED: &str = "limits of connections lowered";

/// Returns a program in `dir` that runs the binary with at most `files` open files.
fn limited_binary(dir: &Path, files: u64) -> &'static Path {
    let path = dir.join(format!("seqsvr-{files}-files"));
    let binary = release_binary().display();
    fs::write(
        &path,
        format!("#!/bin/sh\nulimit -n {files} && exec '{binary}' \"$@\"\n"),
    )
    .unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Box::leak(path.into_boxed_path())
}

/// Returns a command of the binary, with a clean environment and at most `files` open files.
fn limited_command(dir: &Path, files: u64, args: &[&str]) -> Command {
    let clean = clean_command(args);
    let mut command = Command::new(limited_binary(dir, files));
    command.args(args).stdin(Stdio::null());
    for (name, _) in clean.get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(name);
    }
    command
}

/// Returns the names of the files in a directory; none if there is no directory.
fn file_names(dir: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Keeps `count` connections open to this address until it is dropped. The server closes those that
/// say nothing; they are opened again.
fn open_idle_connections(address: &str, count: usize) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    for _ in 0..count {
        let address = address.to_owned();
        connections.spawn(async move {
            loop {
                if let Ok(mut connection) = TcpStream::connect(&address).await {
                    let _ = connection.read_to_end(&mut Vec::new()).await;
                }
                sleep(Duration::from_millis(300)).await;
            }
        });
    }
    connections
}

/// The snapshot needs a file of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_with_few_descriptors_makes_a_snapshot_beside_idle_connections() {
    let flags = ["--snapshot-interval-entries", "100"];
    let mut cluster = ProcessCluster::start_with(1, 1, 3_000, &flags, &[]).await;
    let few_files = limited_binary(cluster.dir(), 160);
    cluster.stores[0].set_binary(few_files);
    cluster.stop_store(0).await;
    cluster.stores[0].restart();
    cluster.wait_until_assigned(1).await;
    let numbers = cluster.new_client().default_namespace();
    // The AllocSvr opens its connection for commands.
    numbers.next(0).await.unwrap();
    let snapshots = cluster.dir().join("store-1/snapshots");
    let before = file_names(&snapshots);
    let _idle = open_idle_connections(&cluster.store_addresses[0], 195);
    let open_files = format!("/proc/{}/fd", cluster.stores[0].pid().as_raw_nonzero());
    wait_until("idle connections at the store", TEST_TIMEOUT, async || {
        (file_names(Path::new(&open_files)).len() >= 70).then_some(())
    })
    .await;
    // Each opens a section, which is an entry of the log.
    for uid in (1..300).map(|n| n * 100_000) {
        numbers.next(uid).await.unwrap();
    }
    wait_until("a snapshot", TEST_TIMEOUT, async || {
        cluster.assert_none_ended();
        (file_names(&snapshots) != before).then_some(())
    })
    .await;
    let log = cluster.stores[0].log();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|l| l.contains("available=160"))
        .collect();
    assert_eq!(warnings.len(), 1, "{log}");
    for words in [LOWERED, "--connections-max 16384 -> ", "ulimit -n"] {
        assert!(warnings[0].contains(words), "{words}: {log}");
    }
}

/// Idle clients leave descriptors for the connections to stores.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_with_few_descriptors_reconnects_to_its_stores_beside_idle_clients() {
    let mut cluster = ProcessCluster::start(1, 1, 3_000).await;
    let few_files = limited_binary(cluster.dir(), 200);
    cluster.allocs[0].set_binary(few_files);
    cluster.allocs[0].stop(TEST_TIMEOUT).await;
    cluster.allocs[0].restart();
    cluster.wait_until_assigned(1).await;
    let redis = format!("127.0.0.1:{}", cluster.endpoint_ports[0].redis);
    let mut idle = Vec::new();
    let mut rejected = 0;
    for _ in 0..300 {
        let mut connection = TcpStream::connect(&redis).await.unwrap();
        // The server closes a connection above its limit, mostly with the reason.
        let mut reason = Vec::new();
        let read = connection.read_to_end(&mut reason);
        match tokio::time::timeout(Duration::from_millis(20), read).await {
            Ok(_) => rejected += usize::from(reason.starts_with(b"-ERR max number of clients")),
            Err(_) => idle.push(connection),
        }
    }
    cluster.kill_store(0);
    cluster.stores[0].restart();
    cluster.wait_until_assigned(1).await;
    let numbers = cluster.new_client().default_namespace();
    numbers.next(1).await.unwrap();
    assert!(rejected > 0, "no client received the reason");
    let log = cluster.allocs[0].log();
    for words in [
        LOWERED,
        "--connections-max 16384 -> ",
        "--redis-connections-max 10000 -> ",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(!log.contains("Too many open files"), "{log}");
}

/// The process ends before it makes anything, and names the number that it needs.
#[test]
fn server_with_too_few_descriptors_ends_and_names_the_number_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (data_text, port) = (data.to_str().unwrap(), free_port());
    let listen = format!("127.0.0.1:{port}");
    let servers: [&[&str]; 3] = [
        &[
            "store",
            "--id",
            "1",
            "--listen",
            &listen,
            "--data-dir",
            data_text,
        ],
        &[
            "alloc",
            "--name",
            "a",
            "--stores",
            "127.0.0.1:1",
            "--listen",
            &listen,
            "--state-dir",
            data_text,
        ],
        &["dev", "--data-dir", data_text],
    ];
    for args in servers {
        let output = limited_command(dir.path(), 48, args).output().unwrap();
        let errors = expect_exit_code(&output, 2);
        assert!(errors.contains("too few file descriptors"), "{errors}");
        assert!(!data.exists(), "{args:?}");
        let needed = errors
            .split("and needs ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let needed: u64 = needed
            .and_then(|number| number.parse().ok())
            .expect(&errors);
        // One fewer is rejected too. With the number of the text a store starts.
        let output = limited_command(dir.path(), needed - 1, args)
            .output()
            .unwrap();
        expect_exit_code(&output, 2);
        if args[0] == "store" {
            let mut store = limited_command(dir.path(), needed, args);
            let mut store = store.stdout(Stdio::piped()).spawn().unwrap();
            let banner = BufReader::new(store.stdout.take().unwrap());
            let mut lines = banner.lines().map_while(Result::ok);
            let has_started = lines.any(|line| line.trim().starts_with("cluster"));
            let _ = store.kill();
            store.wait().unwrap();
            assert!(has_started, "{needed} descriptors do not suffice");
            fs::remove_dir_all(&data).unwrap();
        }
    }
}
