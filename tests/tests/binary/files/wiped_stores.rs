//! `init` that is repeated after stores lost their directories, or before the first one was done.
//!
//! Runs `init` against StoreSvrs whose directories were deleted, as an automation does that has the
//! command in its start script.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DescribeRequest, DescribeResponse, InitRequest, Member};
use seqsvr_test_support::process::{ServerProcess, free_ports, run_command};
use seqsvr_test_support::process_cluster::{ProcessCluster, store_args};
use seqsvr_test_support::wait::wait_until;
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::dev::expect_exit_code;

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

async fn run_init(addresses: &[String]) -> Output {
    let members = (1..).zip(addresses).map(|(id, at)| format!("{id}={at}"));
    let members: Vec<String> = members.collect();
    run_command(&["init", "--stores", &members.join(",")]).await
}

/// Deletes the directory of a store, and starts the store again.
fn wipe_store(store: &mut ServerProcess) {
    store.kill();
    std::fs::remove_dir_all(Path::new(store.arg("--data-dir"))).unwrap();
    store.restart();
}

/// Schedule: one store loses its directory, then another one. `init` answered that the cluster
/// exists, and the operator believed that it has three stores.
#[tokio::test]
async fn init_of_partly_wiped_set_is_rejected_with_table() {
    let mut cluster = ProcessCluster::start(3, 0, 3_000).await;
    let addresses = cluster.store_addresses.clone();
    let again = run_init(&addresses).await;
    assert!(again.status.success(), "it is whole: {again:?}");
    let id = String::from_utf8(again.stdout).unwrap();
    let row =
        |n: usize, cluster: &str| format!("\n  store {n} at {} -> {cluster}", addresses[n - 1]);
    let own = format!("cluster {}", id.trim());
    for (wiped, rows) in [
        (0, [row(1, "no cluster"), row(2, &own), row(3, &own)]),
        (
            1,
            [row(1, "no cluster"), row(2, "no cluster"), row(3, &own)],
        ),
    ] {
        wipe_store(&mut cluster.stores[wiped]);
        let errors = expect_exit_code(&run_init(&addresses).await, 2);
        for part in rows.iter().map(String::as_str).chain(["member add"]) {
            assert!(errors.contains(part), "no {part:?} in {errors}");
        }
    }

    // A silent store may be of another cluster.
    cluster.stores[1].kill();
    let began = Instant::now();
    let errors = expect_exit_code(&run_init(&addresses).await, 3);
    let silent = format!("store 2 at {} does not answer", addresses[1]);
    assert!(errors.contains(&silent), "{errors}");
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(15),
        "less than --timeout: {took:?}"
    );
}

/// Schedule: one of three stores loses its directory, and the operator repeats `init` with it
/// alone. It made a second cluster at the address of the first one.
#[tokio::test]
async fn init_of_wiped_store_alone_is_rejected_while_its_cluster_lives() {
    let mut cluster = ProcessCluster::start(3, 0, 3_000).await;
    wipe_store(&mut cluster.stores[0]);
    let wiped = &cluster.stores[0];
    wait_until("the cluster to call the store", TEST_TIMEOUT, async || {
        let line = "not the one that the cluster has recorded";
        wiped.log().contains(line).then_some(())
    })
    .await;
    let address = cluster.store_addresses[0].clone();
    let errors = expect_exit_code(&run_init(std::slice::from_ref(&address)).await, 1);
    for part in ["as its member 1", "Nothing was changed", "member add"] {
        assert!(errors.contains(part), "no {part:?} in {errors}");
    }
    assert!(describe(&address).await.unwrap().cluster.is_empty());
}

/// `dev` has no other command for its stores: it says what is lost, and serves with the others.
#[tokio::test]
async fn dev_with_one_store_wiped_serves_with_the_others() {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    let store_port = free_ports(3);
    let ports = [free_ports(1), store_port].map(|port| port.to_string());
    let mut args = vec!["dev", "--stores", "3", "--port", &ports[0]];
    args.extend(["--store-port", &ports[1], "--data-dir"]);
    args.push(data.to_str().unwrap());
    for flag in ["--redis-port", "--http-port", "--store-http-port"] {
        args.extend([flag, "0"]);
    }
    let args = args.into_iter().map(str::to_owned).collect();
    let mut dev = ServerProcess::start(dir.path(), "dev", args);
    let server = format!("127.0.0.1:{}", ports[0]);
    let next = ["next", "42", "--timeout", "60s", "--server", &server];
    let first = run_command(&next).await;
    assert!(first.status.success(), "{first:?}");
    dev.kill();
    std::fs::remove_dir_all(data.join("store-3")).unwrap();
    std::fs::create_dir(data.join("store-3")).unwrap();
    dev.restart();
    let second = run_command(&next).await;
    assert!(second.status.success(), "{second:?}\n{}", dev.log());
    let value = |output: Output| -> u64 {
        let text = String::from_utf8(output.stdout).unwrap();
        text.trim().parse().unwrap()
    };
    assert!(value(second) > value(first), "{}", dev.log());
    let lost = format!("store 3 at 127.0.0.1:{} -> no cluster", store_port + 2);
    assert!(dev.log().contains(&lost), "no {lost:?} in {}", dev.log());
}

#[tokio::test]
async fn init_of_stores_of_two_clusters_is_rejected_with_table() {
    let clusters = [
        ProcessCluster::start(1, 0, 3_000).await,
        ProcessCluster::start(2, 0, 3_000).await,
    ];
    let addresses = [
        clusters[0].store_addresses[0].clone(),
        clusters[1].store_addresses[1].clone(),
    ];
    let errors = expect_exit_code(&run_init(&addresses).await, 2);
    for (n, address) in (1..).zip(&addresses) {
        let row = format!("\n  store {n} at {address} -> cluster ");
        assert!(errors.contains(&row), "no {row:?} in {errors}");
    }
}

/// Schedule: the first store has met the others, receives the request to make the cluster, and
/// loses its connections to them before they have it. The command is interrupted. One store has the
/// cluster then, the others have none.
#[tokio::test]
async fn interrupted_init_is_completed_by_another_one() {
    let dir = TempDir::new().unwrap();
    let (mut stores, mut gates, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=3 {
        let listen = format!("127.0.0.1:{}", free_ports(1));
        let gate = ConnectionGate::start(listen.clone()).await;
        let data = dir.path().join(format!("store-{id}"));
        let mut args = store_args(id, &listen, data.to_str().unwrap());
        args.extend(["--advertise".to_owned(), gate.address.clone()]);
        stores.push(ServerProcess::start(dir.path(), &format!("s{id}"), args));
        addresses.push(listen);
        gates.push(gate);
    }
    let mut members = Vec::new();
    for (id, address) in (1..).zip(&addresses) {
        let found = wait_until("a store to answer", TEST_TIMEOUT, async || {
            describe(address).await
        });
        let found = found.await;
        members.push(Member {
            id,
            address: found.address,
            incarnation: found.incarnation,
        });
    }
    // Each store calls its own address once. The call before `init` makes the cluster is the next.
    for gate in &gates {
        wait_until("a store to meet itself", TEST_TIMEOUT, async || {
            (gate.passed.load(Ordering::Relaxed) > 0).then_some(())
        })
        .await;
    }
    gates[1..].iter().for_each(|gate| gate.admit(1));
    let request = InitRequest {
        cluster: u128_to_bytes(7),
        members,
        lease_ms: 3_000,
        slots: 1_024,
    };
    let founder = format!("http://{}", addresses[0]);
    let mut founder = StoreClient::connect(founder).await.unwrap();
    let interrupted = founder.init(request);
    let waiting = tokio::time::timeout(TEST_TIMEOUT, async {
        tokio::select! {
            made = interrupted => panic!("without a quorum: {made:?}"),
            () = has_cluster(&addresses[0]) => {}
        }
    });
    waiting.await.unwrap();
    for address in &addresses[1..] {
        let found = describe(address).await.unwrap();
        assert!(found.cluster.is_empty(), "{address} has it: {found:?}");
    }
    gates.iter().for_each(|gate| gate.admit(u64::MAX));
    let completed = run_init(&addresses).await;
    assert!(completed.status.success(), "{completed:?}");
    assert_eq!(completed.stdout, format!("{:032x}\n", 7).into_bytes());
}

async fn describe(address: &str) -> Option<DescribeResponse> {
    let mut store = StoreClient::connect(format!("http://{address}"))
        .await
        .ok()?;
    Some(store.describe(DescribeRequest {}).await.ok()?.into_inner())
}

/// A port that forwards connections to a server, as many as the test admits.
struct ConnectionGate {
    address: String,
    passed: Arc<AtomicU64>,
    admitted: Arc<AtomicU64>,
}

impl ConnectionGate {
    /// Starts a gate that admits all.
    async fn start(target: String) -> ConnectionGate {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gate = ConnectionGate {
            address: listener.local_addr().unwrap().to_string(),
            passed: Arc::default(),
            admitted: Arc::new(AtomicU64::new(u64::MAX)),
        };
        let (passed, admitted) = (gate.passed.clone(), gate.admitted.clone());
        tokio::spawn(async move {
            loop {
                let (mut from, _) = listener.accept().await.unwrap();
                if passed.load(Ordering::Relaxed) >= admitted.load(Ordering::Relaxed) {
                    continue;
                }
                // The store may not listen yet.
                if let Ok(mut to) = TcpStream::connect(&target).await {
                    passed.fetch_add(1, Ordering::Relaxed);
                    tokio::spawn(async move {
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    });
                }
            }
        });
        gate
    }

    /// Admits this many connections more.
    fn admit(&self, more: u64) {
        let passed = self.passed.load(Ordering::Relaxed);
        self.admitted
            .store(passed.saturating_add(more), Ordering::Relaxed);
    }
}

/// Waits until a store names its cluster.
async fn has_cluster(address: &str) {
    wait_until("a store to name its cluster", TEST_TIMEOUT, async || {
        let found = describe(address).await?;
        (!found.cluster.is_empty()).then_some(())
    })
    .await;
}
