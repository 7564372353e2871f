//! `init` that is repeated after stores lost their directories, or before the first one was done.
//!
//! Runs `init` against StoreSvrs whose directories were deleted, as an automation does that has the
//! command in its start script.

use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DescribeRequest, InitRequest, Member};
use seqsvr_test_support::process::{ServerProcess, free_ports, run_command};
use seqsvr_test_support::process_cluster::{ProcessCluster, store_args};
use seqsvr_test_support::wait::wait_until;
use tempfile::TempDir;

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

/// Schedule: the first store receives the request to make the cluster while the others are down,
/// and the command is interrupted. Some stores have the cluster then, others have none.
#[tokio::test]
async fn interrupted_init_is_completed_by_another_one() {
    let dir = TempDir::new().unwrap();
    let (mut stores, mut addresses, mut members) = (Vec::new(), Vec::new(), Vec::new());
    for id in 1..=3 {
        let address = format!("127.0.0.1:{}", free_ports(1));
        let data = dir.path().join(format!("store-{id}"));
        let args = store_args(id, &address, data.to_str().unwrap());
        stores.push(ServerProcess::start(dir.path(), &format!("s{id}"), args));
        let found = wait_until("a store to answer", TEST_TIMEOUT, async || {
            let mut store = StoreClient::connect(format!("http://{address}"))
                .await
                .ok()?;
            Some(store.describe(DescribeRequest {}).await.ok()?.into_inner())
        });
        let found = found.await;
        members.push(Member {
            id,
            address: found.address,
            incarnation: found.incarnation,
        });
        addresses.push(address);
    }
    stores[1..].iter_mut().for_each(ServerProcess::kill);
    let request = InitRequest {
        cluster: u128_to_bytes(7),
        members,
        lease_ms: 3_000,
        slots: 1_024,
    };
    let first = format!("http://{}", addresses[0]);
    let mut founder = StoreClient::connect(first.clone()).await.unwrap();
    let interrupted = founder.init(request);
    let waiting = tokio::time::timeout(TEST_TIMEOUT, async {
        tokio::select! {
            made = interrupted => panic!("without a quorum: {made:?}"),
            () = has_cluster(&first) => {}
        }
    });
    waiting.await.unwrap();
    stores[1..].iter_mut().for_each(ServerProcess::restart);
    let completed = run_init(&addresses).await;
    assert!(completed.status.success(), "{completed:?}");
    assert_eq!(completed.stdout, format!("{:032x}\n", 7).into_bytes());
}

/// Waits until a store names its cluster.
async fn has_cluster(address: &str) {
    wait_until(
        "the founder to name its cluster",
        TEST_TIMEOUT,
        async || {
            let mut store = StoreClient::connect(address.to_owned()).await.ok()?;
            let found = store.describe(DescribeRequest {}).await.ok()?.into_inner();
            (!found.cluster.is_empty()).then_some(())
        },
    )
    .await;
}
