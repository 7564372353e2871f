//! `/healthz` and `/readyz` report the true state, and what to do.
//!
//! Fault: stores are stopped one by one, and a lease expires.

use std::time::{Duration, Instant};

use seqsvr_gateway::HttpServer;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, any_port, start_alloc};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::time::sleep;

use super::metrics::{get_once, open_alloc_endpoint, open_store_endpoint};

/// Returns the names of the checks that pass, and of those that fail.
async fn read_checks(endpoint: &HttpServer, path: &str) -> (Vec<String>, Vec<String>) {
    let answer = get_once(endpoint, path).await;
    let of = |mark: &str| {
        let lines = answer.body.lines().filter_map(|l| l.strip_prefix(mark));
        let names = lines.map(|l| l.split(':').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let (ok, failed) = (of("ok: "), of("failed: "));
    let status = if failed.is_empty() { 200 } else { 503 };
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(ok.len() + failed.len(), answer.body.lines().count());
    (ok, failed)
}

async fn wait_until_failed(endpoint: &HttpServer, wanted: &[&str]) {
    wait_until(&format!("{wanted:?} to fail"), TEST_TIMEOUT, async || {
        let (_, failed) = read_checks(endpoint, "/readyz").await;
        (failed == wanted).then_some(())
    })
    .await;
    let (_, failed) = read_checks(endpoint, "/healthz").await;
    assert!(failed.is_empty(), "it is not broken: {failed:?}");
}

async fn wait_until_ready(endpoint: &HttpServer, count: usize) {
    wait_until("readiness", TEST_TIMEOUT, async || {
        let (ok, failed) = read_checks(endpoint, "/readyz").await;
        (failed.is_empty() && ok.len() == count).then_some(())
    })
    .await;
}

/// Checks readiness for longer than a leader may be silent.
async fn assert_stays_ready(endpoint: &HttpServer) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        let (_, failed) = read_checks(endpoint, "/readyz").await;
        assert!(failed.is_empty(), "after {:?}: {failed:?}", begin.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_without_a_majority_fails() {
    let mut cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let alloc = open_alloc_endpoint(&allocs[0]).await;
    let store = open_store_endpoint(cluster.store(0)).await;
    wait_until_ready(&alloc, 6).await;
    wait_until_ready(&store, 4).await;
    assert_stays_ready(&store).await;
    // Two of three are a majority.
    cluster.stop_store(2).await;
    wait_until_ready(&store, 4).await;
    wait_until_ready(&alloc, 6).await;
    cluster.stop_store(1).await;
    // While the lease is valid.
    wait_until_failed(&alloc, &["store"]).await;
    wait_until_failed(&store, &["leader"]).await;
    wait_until_failed(&alloc, &["lease", "store"]).await;
    alloc.shutdown().await;
    store.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readiness_of_single_store_holds_and_of_unjoined_nodes_fails() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alone = open_store_endpoint(cluster.store(0)).await;
    wait_until_ready(&alone, 4).await;
    assert_stays_ready(&alone).await;
    let dir = tempfile::tempdir().unwrap();
    let options = seqsvr_store::Options::new(9, any_port(), dir.path());
    let new = seqsvr_store::StoreServer::start(options).await.unwrap();
    let waiting = open_store_endpoint(&new).await;
    wait_until_failed(&waiting, &["cluster", "leader"]).await;
    let address = new.local_addr().to_string();
    let lonely = start_alloc(seqsvr_alloc::Options::new(
        "lonely",
        any_port(),
        vec![address],
    ))
    .await;
    let endpoint = open_alloc_endpoint(&lonely).await;
    wait_until_failed(&endpoint, &["lease", "routing table", "store"]).await;
    let answer = get_once(&endpoint, "/readyz").await;
    assert!(answer.body.contains("seqsvr init"), "{answer:?}");
    for endpoint in [alone, waiting, endpoint] {
        endpoint.shutdown().await;
    }
    lonely.shutdown().await;
    new.shutdown().await;
    cluster.stop(&[]).await;
}
