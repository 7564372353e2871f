//! Addresses are reused by another cluster: no number of it is taken for one of the first cluster.
//!
//! Fault: a process of another cluster starts at the address of a killed one, or the stores are
//! wiped and initialized again. Checked: clients and AllocSvrs end or fail with an error that names
//! the other cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use seqsvr_client::{Client, ClientOptions};
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, NextResponse};
use seqsvr_test_support::process::{ServerProcess, free_ports, release_binary};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::wait_until;
use tonic::Status;

use crate::scenario::ScenarioOutcome;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(3);

/// A bench measures `dev`, which is killed and started on another directory at the same ports. For
/// each kind of call, the bench ends with an error that names the other cluster.
pub async fn address_reused() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    for way in [&[][..], &["--unary"], &["--mode", "pipe"]] {
        // 1. Start `dev`, and a bench against it.
        let dir = tempfile::tempdir().unwrap();
        let ports = [free_ports(1), free_ports(1)];
        let mut first = start_dev(dir.path(), "first", ports).await;
        let server = format!("127.0.0.1:{}", ports[0]);
        let bench = [
            "bench",
            "--rate",
            "200",
            "--keys",
            "50",
            "--duration",
            "120s",
            "--server",
        ];
        let bench = Command::new(release_binary())
            .args(bench)
            .arg(&server)
            .args(way)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the bench starts");

        // 2. Wait until nearly every key has a number.
        let admin = Client::new(ClientOptions::new([server.clone()]))
            .expect("a good address")
            .admin();
        wait_until("the bench to take 500 numbers", TEST_TIMEOUT, async || {
            let status = admin.node_status(&server).await.ok()?;
            (status.counters["numbers_issued"] >= 500).then_some(())
        })
        .await;

        // 3. Kill `dev` and start it on another directory at the same ports.
        first.kill();
        let _second = start_dev(dir.path(), "second", ports).await;

        // 4. The bench ends with an error that names the other cluster.
        let (success, errors) = wait_for_output(bench).await;
        assert!(!success, "the bench ended without an error:\n{errors}");
        assert!(!errors.contains("given twice"), "{errors}");
        let last = errors.lines().last().unwrap_or_default();
        assert!(last.contains("cluster mismatch"), "{errors}");
        outcome.note(format!("bench {way:?}: {last}"));
    }
    outcome
}

/// An owner is killed, and an AllocSvr of another cluster starts at its address while the first
/// cluster still routes there. Calls to other AllocSvrs are forwarded there, and no number of the
/// other cluster is returned.
pub async fn address_reused_forwarder() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Take numbers through an AllocSvr that forwards them to the owner.
    let mut cluster = ProcessCluster::start(1, 2, LEASE.as_millis() as u32).await;
    let other = ProcessCluster::start(1, 1, LEASE.as_millis() as u32).await;
    let (forwarder, reused) = (
        cluster.alloc_addresses[0].clone(),
        cluster.alloc_addresses[1].clone(),
    );
    let client = cluster.new_client();
    let mut uids = Vec::new();
    for uid in (0..).step_by(100_000) {
        let (_, _, route) = client
            .default_namespace()
            .route(uid)
            .await
            .expect("a route");
        if route.owner.is_some_and(|owner| owner.address == reused) {
            uids.push(uid);
        }
        if uids.len() == 20 {
            break;
        }
    }
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for uid in &uids {
        for _ in 0..50 {
            let number = take_number(&forwarder, *uid)
                .await
                .expect("it is forwarded")
                .first;
            last.insert(*uid, number);
        }
    }

    // 2. Kill the owner, and start an AllocSvr of another cluster at its address.
    cluster.kill_alloc(1);
    let stores = other.store_addresses.join(",");
    let args = [
        "alloc", "--name", "b2", "--listen", &reused, "--stores", &stores,
    ];
    let args = args.map(str::to_owned).to_vec();
    let _stray = ServerProcess::start(other.dir(), "alloc-b2", args);
    wait_until(
        "the other cluster to answer there",
        TEST_TIMEOUT,
        async || take_number(&reused, 99).await.ok(),
    )
    .await;

    // 3. Forwarded calls fail until the takeover. No answer is of the other cluster.
    let (mut answered, mut failed) = (0_u64, 0_u64);
    let deadline = Instant::now() + TEST_TIMEOUT;
    while answered < 200 {
        assert!(Instant::now() < deadline, "{answered} answers only");
        for uid in &uids {
            match take_number(&forwarder, *uid).await {
                Ok(response) => {
                    let before = last.insert(*uid, response.first).unwrap_or(0);
                    let number = response.first;
                    assert!(number > before, "uid {uid}: {number} after {before}");
                    answered += 1;
                }
                Err(_) => failed += 1,
            }
        }
    }
    outcome.note(format!(
        "{answered} answers, all of this cluster, {failed} errors"
    ));
    outcome
}

/// All stores are wiped and initialized again while an AllocSvr lives. It ends with one clear line
/// once its lease has expired. One stray store of three ends nothing.
pub async fn stores_reinitialized() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. An AllocSvr serves.
    let mut cluster = ProcessCluster::start(3, 1, LEASE.as_millis() as u32).await;
    let server = cluster.alloc_addresses[0].clone();
    let old_first = take_number(&server, 1).await.expect("a number").first;

    // 2. One stray store of another cluster ends nothing.
    replace_by_stray_store(&mut cluster, 2).await;
    let began = Instant::now();
    while began.elapsed() < 3 * LEASE {
        take_number(&server, 1)
            .await
            .expect("one stray store disturbs nothing");
        tokio::time::sleep(LEASE / 30).await;
    }
    assert!(!cluster.allocs[0].has_ended());

    // 3. All stores are wiped and initialized: the AllocSvr ends, with the reason.
    for store in 0..3 {
        wipe_store(&mut cluster, store).await;
    }
    init_cluster(&cluster.store_addresses).await;
    let wiped = Instant::now();
    let status = cluster.allocs[0].wait_for_exit(TEST_TIMEOUT).await;
    assert!(!status.success());
    let log = cluster.allocs[0].log();
    let last = log.lines().last().unwrap_or_default();
    assert!(
        last.contains("cluster mismatch") && last.contains("--stores"),
        "{log}"
    );
    outcome.note(format!(
        "{:.1?} after the stores were initialized again: {last}",
        wiped.elapsed()
    ));

    // 4. After a restart it joins the new cluster, whose numbers begin at 1.
    cluster.allocs[0].restart();
    let new_first = wait_until("numbers of the new cluster", TEST_TIMEOUT, async || {
        take_number(&server, 1).await.ok()
    })
    .await
    .first;
    assert!(
        old_first >= 1 && new_first == 1,
        "{old_first}, then {new_first}"
    );
    outcome
}

/// Kills a store, wipes its directory, and restarts it.
async fn wipe_store(cluster: &mut ProcessCluster, store: usize) {
    cluster.kill_store(store);
    let data = cluster.stores[store].arg("--data-dir").to_owned();
    std::fs::remove_dir_all(data).expect("it can be removed");
    cluster.stores[store].restart();
}

/// Replaces a store by one that was initialized alone, at another address: the cluster does not
/// call it there.
async fn replace_by_stray_store(cluster: &mut ProcessCluster, store: usize) {
    let own_address = cluster.store_addresses[store].clone();
    let stray_address = format!("127.0.0.1:{}", free_ports(1));
    cluster.kill_store(store);
    cluster.stores[store].set_arg("--listen", &stray_address);
    wipe_store(cluster, store).await;
    let member = format!("{}={stray_address}", store + 1);
    init_members(&member).await;
    cluster.kill_store(store);
    cluster.stores[store].set_arg("--listen", &own_address);
    cluster.stores[store].restart();
}

/// Initializes a cluster of the stores at these addresses.
async fn init_cluster(addresses: &[String]) {
    let members = (1..).zip(addresses).map(|(id, at)| format!("{id}={at}"));
    init_members(&members.collect::<Vec<_>>().join(",")).await;
}

/// Runs `init` with these stores until it succeeds. Stores that a cluster called a moment ago make
/// no other one.
async fn init_members(members: &str) {
    wait_until("the cluster to be created", TEST_TIMEOUT, async || {
        let made = seqsvr_test_support::process::run_command(&["init", "--stores", members]).await;
        made.status.success().then_some(())
    })
    .await;
}

async fn start_dev(dir: &Path, data: &str, ports: [u16; 2]) -> ServerProcess {
    let data_dir = dir.join(data).display().to_string();
    let [port, store] = ports.map(|port| port.to_string());
    let args = [
        "dev",
        "--port",
        &port,
        "--store-port",
        &store,
        "--data-dir",
        &data_dir,
    ];
    let process = ServerProcess::start(dir, data, args.map(str::to_owned).to_vec());
    wait_until("dev to be ready", TEST_TIMEOUT, async || {
        process.log().contains("\nready after").then_some(())
    })
    .await;
    process
}

/// Waits for a child. Returns whether it succeeded, and its errors.
async fn wait_for_output(mut child: Child) -> (bool, String) {
    wait_until("the bench to end", TEST_TIMEOUT, async || {
        child.try_wait().expect("it can be waited for")
    })
    .await;
    let output = child.wait_with_output().expect("its output");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), errors)
}

async fn take_number(server: &str, uid: u64) -> Result<NextResponse, Status> {
    let connected = SequenceClient::connect(format!("http://{server}")).await;
    let mut client = connected.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = tonic::Request::new(NextRequest {
        key_kind: Some(KeyKind::Uid(uid)),
        ..NextRequest::default()
    });
    request.set_timeout(Duration::from_secs(1));
    client.next(request).await.map(tonic::Response::into_inner)
}
