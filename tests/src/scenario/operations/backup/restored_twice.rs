//! One backup is restored on two hosts. That makes two clusters, each without a fault, and each
//! gives the same numbers.
//!
//! Fault: the operator's. An AllocSvr gets the stores of both clusters. Checked: it serves one
//! cluster only, also when it is started again while the stores of that cluster are down.

use std::path::Path;
use std::time::Duration;

use seqsvr_client::{Client, ClientOptions};
use seqsvr_test_support::process::{ServerProcess, free_ports, run_command};
use seqsvr_test_support::process_cluster::{ProcessCluster, store_args};
use seqsvr_test_support::wait::wait_until;

use super::COVERING_MARGIN;
use super::commands::{assert_success, run_backup};
use crate::scenario::ScenarioOutcome;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A store that was restored from the backup.
struct Restored {
    address: String,
    cluster: String,
    store: ServerProcess,
}

/// Restores the backup on "host" `host`, and starts the store.
async fn restore(dir: &Path, file: &Path, host: u16) -> Restored {
    let address = format!("127.0.0.1:{}", free_ports(1));
    let data = dir.join(format!("host-{host}")).display().to_string();
    let mut args = vec!["restore", file.to_str().expect("UTF-8"), "--id", "1"];
    args.extend(["--listen", &address, "--data-dir", &data]);
    for flag in ["--max-seq-margin", "--start-margin", "--epoch-margin"] {
        args.extend([flag, COVERING_MARGIN]);
    }
    let report = assert_success(&run_command(&args).await);
    assert!(report.contains("once, on one host"), "{report}");
    let cluster = report.lines().find_map(|line| line.strip_prefix("cluster"));
    let cluster = cluster.expect("its cluster").trim().to_owned();
    let store = ServerProcess::start(
        dir,
        &format!("restored-{host}"),
        store_args(1, &address, &data),
    );
    Restored {
        address,
        cluster,
        store,
    }
}

/// Starts the AllocSvr with the stores of both hosts.
fn start_alloc(
    dir: &Path,
    log: &str,
    listen: &str,
    hosts: &[Restored; 2],
    extra: &[&str],
) -> ServerProcess {
    let stores = hosts.each_ref().map(|host| host.address.as_str()).join(",");
    let state = dir.join("alloc-state").display().to_string();
    let args = ["alloc", "--name", "a1", "--listen", listen];
    let more = ["--stores", &stores, "--state-dir", &state];
    let args = args.iter().chain(&more).chain(extra);
    ServerProcess::start(dir, log, args.map(|arg| (*arg).to_owned()).collect())
}

/// Waits until the AllocSvr has ended with exit code 2. Returns its log.
async fn wait_for_rejection(mut alloc: ServerProcess) -> String {
    let status = alloc.wait_for_exit(TEST_TIMEOUT).await;
    let log = alloc.log();
    assert_eq!(status.code(), Some(2), "{log}");
    log
}

#[track_caller]
fn assert_contains(log: &str, parts: &[&str]) {
    for part in parts {
        assert!(log.contains(part), "no {part:?} in:\n{log}");
    }
}

async fn next_number(client: &Client) -> u64 {
    wait_until("a number", TEST_TIMEOUT, async || {
        let taken = client.namespace("default").next(42).await;
        taken.ok().map(|taken| taken.first)
    })
    .await
}

/// A backup is restored on two hosts, and an AllocSvr with a state directory gets both stores. No
/// start gives a number of a second cluster.
pub async fn backup_restored_twice() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. A cluster is backed up and lost.
    let mut lost = ProcessCluster::start(1, 1, 1_000).await;
    next_number(&lost.new_client()).await;
    let file = lost.dir().join("twice.backup");
    assert_success(&run_backup(&lost, &file).await);
    lost.all_processes().for_each(ServerProcess::kill);
    let dir = lost.dir().to_owned();

    // 2. It is restored on two hosts. With both stores the AllocSvr does not start.
    let mut hosts = [restore(&dir, &file, 1).await, restore(&dir, &file, 2).await];
    assert_ne!(hosts[0].cluster, hosts[1].cluster);
    let listen = format!("127.0.0.1:{}", free_ports(1));
    let log = wait_for_rejection(start_alloc(&dir, "both", &listen, &hosts, &[])).await;
    let table = hosts
        .each_ref()
        .map(|host| format!("  {} -> cluster {}", host.address, host.cluster));
    assert_contains(&log, &[&table[0], &table[1], "--stores"]);
    // The first answer contradicts the operator already. The table has all of them.
    let neither = format!("{:032x}", 7);
    let flag = ["--join-cluster", neither.as_str()];
    let log = wait_for_rejection(start_alloc(&dir, "neither", &listen, &hosts, &flag)).await;
    assert_contains(&log, &[&table[0], &table[1], "different clusters"]);
    outcome.note(String::from("both stores: exit code 2"));

    // 3. With one of two stores and no recorded cluster it waits, and names the silent store.
    hosts[1].store.kill();
    let mut waiting = start_alloc(&dir, "half", &listen, &hosts, &[]);
    let silent = format!("{} -> no answer", hosts[1].address);
    let named = format!("--join-cluster {}", hosts[0].cluster);
    wait_until("it names the silent store", TEST_TIMEOUT, async || {
        let log = waiting.log();
        (log.contains(&silent) && log.contains(&named)).then_some(())
    })
    .await;
    assert!(!waiting.has_ended() && !waiting.log().contains("session opened"));
    waiting.kill();

    // 4. The operator chooses the first cluster.
    let flag = ["--join-cluster", &hosts[0].cluster];
    let mut alloc = start_alloc(&dir, "chosen", &listen, &hosts, &flag);
    let client = Client::new(ClientOptions::new([listen.clone()])).expect("a good address");
    let first = next_number(&client).await;
    alloc.kill();

    // 5. Its store is down, and the other one answers.
    hosts[0].store.kill();
    hosts[1].store.restart();
    let log = wait_for_rejection(start_alloc(&dir, "other", &listen, &hosts, &[])).await;
    let remedy = format!("--join-cluster {}", hosts[1].cluster);
    assert_contains(
        &log,
        &["alloc-state", &hosts[0].cluster, &remedy, &table[1]],
    );
    assert!(!log.contains("session opened"), "{log}");
    outcome.note(String::from(
        "state directory of the other cluster: exit code 2",
    ));

    // 6. The state directory and one store are enough.
    hosts[1].store.kill();
    hosts[0].store.restart();
    let mut alloc = start_alloc(&dir, "again", &listen, &hosts, &[]);
    let second = next_number(&client).await;
    assert!(second > first, "{second} after {first}");

    // 7. A store that answers later for another cluster is logged and counted, and ends nothing.
    hosts[1].store.restart();
    let admin = client.admin();
    wait_until("the stray store to be counted", TEST_TIMEOUT, async || {
        let status = admin.node_status(&listen).await.ok()?;
        (status.counters["stray_stores"] == 1).then_some(())
    })
    .await;
    // A thread of its own writes the log.
    let stray = ["WARN", &hosts[1].address, &hosts[1].cluster];
    wait_until("the line of the stray store", TEST_TIMEOUT, async || {
        let log = alloc.log();
        stray.iter().all(|part| log.contains(part)).then_some(())
    })
    .await;
    let third = next_number(&client).await;
    assert!(
        third > second && !alloc.has_ended(),
        "{third} after {second}"
    );
    outcome.note(format!("numbers {first}, {second}, {third}"));
    outcome
}
