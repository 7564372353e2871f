//! `/healthz` and `/readyz` report the true state, and what to do.
//!
//! Fault: stores are stopped one by one, and a lease expires.

use std::time::{Duration, Instant};

use seqsvr_gateway::HttpDoor;
use tokio::time::sleep;

use super::metrics::{get, of_alloc, of_store};
use crate::harness::{Cluster, D, any, start, until};

/// Returns the names of the checks that pass, and of those that fail.
async fn checks(door: &HttpDoor, path: &str) -> (Vec<String>, Vec<String>) {
    let answer = get(door, path).await;
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

async fn until_failed(door: &HttpDoor, wanted: &[&str]) {
    until(&format!("{wanted:?} to fail"), async || {
        let (_, failed) = checks(door, "/readyz").await;
        (failed == wanted).then_some(())
    })
    .await;
    let (_, failed) = checks(door, "/healthz").await;
    assert!(failed.is_empty(), "it is not broken: {failed:?}");
}

async fn until_ready(door: &HttpDoor, count: usize) {
    until("readiness", async || {
        let (ok, failed) = checks(door, "/readyz").await;
        (failed.is_empty() && ok.len() == count).then_some(())
    })
    .await;
}

/// Checks readiness for longer than a leader may be silent.
async fn stays_ready(door: &HttpDoor) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        let (_, failed) = checks(door, "/readyz").await;
        assert!(failed.is_empty(), "after {:?}: {failed:?}", begin.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_nobody_is_ready() {
    let mut cluster = Cluster::start(3, D).await;
    let allocs = cluster.allocs(["a1"]).await;
    let alloc = of_alloc(&allocs[0]).await;
    let store = of_store(&cluster.stores[0]).await;
    until_ready(&alloc, 4).await;
    until_ready(&store, 4).await;
    stays_ready(&store).await;
    // Two of three are a majority.
    cluster.stop_store().await;
    until_ready(&store, 4).await;
    until_ready(&alloc, 4).await;
    cluster.stop_store().await;
    // While the lease is valid.
    until_failed(&alloc, &["store"]).await;
    until_failed(&store, &["leader"]).await;
    until_failed(&alloc, &["lease", "store"]).await;
    alloc.shutdown().await;
    store.shutdown().await;
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_store_alone_is_ready_and_what_belongs_nowhere_is_not() {
    let cluster = Cluster::start(1, D).await;
    let alone = of_store(&cluster.stores[0]).await;
    until_ready(&alone, 4).await;
    stays_ready(&alone).await;
    let dir = tempfile::tempdir().unwrap();
    let options = seqsvr_store::Options::new(9, any(), dir.path());
    let new = seqsvr_store::Store::start(options).await.unwrap();
    let waiting = of_store(&new).await;
    until_failed(&waiting, &["cluster", "leader"]).await;
    let address = new.local_addr().to_string();
    let lonely = start(seqsvr_alloc::Options::new("lonely", any(), vec![address])).await;
    let door = of_alloc(&lonely).await;
    until_failed(&door, &["lease", "routing table", "store"]).await;
    let answer = get(&door, "/readyz").await;
    assert!(answer.body.contains("seqsvr init"), "{answer:?}");
    for door in [alone, waiting, door] {
        door.shutdown().await;
    }
    lonely.shutdown().await;
    new.shutdown().await;
    cluster.stop(&[]).await;
}
