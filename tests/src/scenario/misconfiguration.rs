//! Processes started by mistake: under a name in use, on a directory of another cluster, on a copy
//! of a store's directory.
//!
//! Fault: the wrong flag or directory. Checked: the process reports the mistake and ends or stays
//! out, and no call to the cluster fails.

use std::time::Duration;

use seqsvr_test_support::process::{ServerProcess, free_ports};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::wait_until;

use crate::scenario::ScenarioOutcome;

/// Time that the second AllocSvr of a name waits for the first; more than three times W at a lease
/// of 1 s.
const NAME_WAIT: &str = "5s";
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The second AllocSvr of a name waits for the first to end, gives up, and disturbs no session.
pub async fn second_alloc_of_a_name() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. a1 serves.
    let mut cluster = ProcessCluster::start(1, 1, 1_000).await;
    let client = cluster.new_client();
    let before = outcome
        .measure_call(client.default_namespace().next(42))
        .await;

    // 2. Start a second AllocSvr of the name. Until it gives up, a1 serves without a gap.
    let listen = format!("127.0.0.1:{}", free_ports(1));
    let stores = cluster.store_addresses.join(",");
    let args = [
        "alloc",
        "--name",
        "a1",
        "--listen",
        &listen,
        "--stores",
        &stores,
        "--name-conflict-timeout",
        NAME_WAIT,
    ];
    let args = args.map(str::to_owned).to_vec();
    let mut second = ServerProcess::start(cluster.dir(), "second", args);
    let mut last = before;
    wait_until("the second to give up", TEST_TIMEOUT, async || {
        let numbers = outcome
            .measure_call(client.default_namespace().next(42))
            .await;
        assert_eq!(numbers.first, last.last + 1, "no window was lost");
        assert_eq!(numbers.epoch, before.epoch, "no slot changed hands");
        last = numbers;
        second.has_ended().then_some(())
    })
    .await;

    // 3. Its last line names the living AllocSvr and the flag.
    outcome.calls_during_fault = outcome.calls - 1;
    let status = second.wait_for_exit(TEST_TIMEOUT).await;
    assert!(!status.success(), "{status}");
    let log = second.log();
    let error = log.lines().last().unwrap();
    assert!(
        error.contains("the name \"a1\" is in use by a running AllocSvr")
            && error.contains(&cluster.alloc_addresses[0])
            && error.contains("--name"),
        "{error}"
    );
    cluster.assert_none_ended();
    outcome
}

/// A StoreSvr on another cluster's directory stays out. On its own directory it is a member again.
pub async fn store_on_foreign_directory() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Stop a cluster, and start another one.
    let mut other_cluster = ProcessCluster::start(3, 1, 3_000).await;
    for process in other_cluster.all_processes() {
        process.kill();
    }
    let mut cluster = ProcessCluster::start(3, 1, 3_000).await;
    let client = cluster.new_client();
    let before = outcome
        .measure_call(client.default_namespace().next(42))
        .await;

    // 2. Restart a store on the other cluster's directory: it logs the mistake and stays out.
    let own = cluster.stores[2].arg("--data-dir").to_owned();
    cluster.kill_store(2);
    let other_dir = other_cluster.stores[2].arg("--data-dir").to_owned();
    let identity = read_identity(&other_dir);
    cluster.stores[2].set_arg("--data-dir", &other_dir);
    cluster.stores[2].restart();
    let log = wait_until("the mistake to be named", TEST_TIMEOUT, async || {
        let log = cluster.stores[2].log();
        log.contains("call rejected: it is of another cluster")
            .then_some(log)
    })
    .await;
    assert!(log.contains("--data-dir"), "{log}");

    // 3. The cluster serves without it.
    let numbers = outcome
        .measure_call(client.default_namespace().next(42))
        .await;
    outcome.calls_during_fault = 1;
    assert_eq!(numbers.first, before.last + 1);

    // 4. The foreign directory is unchanged. On its own directory the store is a member again.
    cluster.kill_store(2);
    assert_eq!(
        read_identity(&other_dir),
        identity,
        "the identity is as it was"
    );
    cluster.stores[2].set_arg("--data-dir", &own);
    cluster.stores[2].restart();
    let leader = cluster.leader().await;
    assert_ne!(leader, 2, "it was away");

    // 5. The leader dies: the cluster has a majority only with that store.
    cluster.kill_store(leader);
    let patient = client.with_deadline(TEST_TIMEOUT);
    let numbers = outcome
        .measure_call(patient.default_namespace().next(42))
        .await;
    assert!(numbers.first > before.last + 1);
    wait_until("a leader with the third store", TEST_TIMEOUT, async || {
        let status = client.admin().cluster_status().await.ok()?;
        status.stores.iter().any(|s| s.leader).then_some(())
    })
    .await;

    // 6. The other cluster has lost nothing.
    for process in &mut other_cluster.stores {
        process.restart();
    }
    other_cluster.allocs[0].restart();
    let other_client = other_cluster.new_client().with_deadline(TEST_TIMEOUT);
    outcome
        .measure_call(other_client.default_namespace().next(42))
        .await;
    outcome
}

/// A StoreSvr on a copy of a running store's directory does not start. A clone that its files do
/// not reveal ends once the original is elected. No call fails.
pub async fn copied_store() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. A cluster serves.
    let mut cluster = ProcessCluster::start(3, 1, 1_000).await;
    let client = cluster.new_client();
    let mut last = outcome
        .measure_call(client.default_namespace().next(42))
        .await
        .last;

    // 2. Start a store on a copy of a living follower's directory: it refuses.
    let store = (cluster.leader().await + 1) % 3;
    let data = cluster.stores[store].arg("--data-dir").to_owned();
    let copy = format!("{data}-copy");
    let copied = std::process::Command::new("cp")
        .args(["-a", &data, &copy])
        .status();
    assert!(copied.is_ok_and(|status| status.success()));
    let listen = format!("127.0.0.1:{}", free_ports(1));
    let id = cluster.stores[store].arg("--id").to_owned();
    let args = [
        "store",
        "--id",
        &id,
        "--listen",
        &listen,
        "--data-dir",
        &copy,
    ];
    let args = args.map(str::to_owned).to_vec();
    let mut twin = ServerProcess::start(cluster.dir(), "copy", args);
    let last_line = |twin: &ServerProcess| twin.log().lines().last().unwrap_or_default().to_owned();
    let status = twin.wait_for_exit(TEST_TIMEOUT).await;
    let error = last_line(&twin);
    assert!(!status.success(), "{status}: {error}");
    assert!(
        error.contains("is a copy") && error.contains("--moved-data-dir"),
        "{error}"
    );

    // 3. Start it as if the copy had been moved on purpose, like a clone of a volume, which has the
    // same inodes. It ends once the original is elected; no call fails until then.
    twin.set_flag("--moved-data-dir");
    twin.restart();
    let to = id.parse().expect("an id");
    wait_until("the clone to end", TEST_TIMEOUT, async || {
        // Elects the original repeatedly. Fails while it is already the leader.
        let _ = client.admin().transfer_leader(Some(to)).await;
        last = {
            let numbers = outcome
                .measure_call(client.default_namespace().next(42))
                .await;
            assert_eq!(numbers.first, last + 1, "no window was lost");
            numbers.last
        };
        if cluster.leader().await == store {
            let _ = client.admin().transfer_leader(None).await;
        }
        twin.has_ended().then_some(())
    })
    .await;
    outcome.calls_during_fault = outcome.calls - 1;

    // 4. Its last line names the other process.
    let status = twin.wait_for_exit(TEST_TIMEOUT).await;
    let error = last_line(&twin);
    assert!(!status.success(), "{status}: {error}");
    assert!(error.contains("another process has this id"), "{error}");
    cluster.assert_none_ended();
    outcome
}

/// Reads the identity file of a data directory.
fn read_identity(dir: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(dir).join("identity")).unwrap()
}
