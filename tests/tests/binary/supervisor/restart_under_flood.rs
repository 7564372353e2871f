//! A supervisor that starts an AllocSvr again while callers flood it with status calls.
//!
//! Before it registers, the AllocSvr calls itself at its address. The flood must not keep it from
//! that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_client::{Client, ClientOptions};
use seqsvr_proto::v1::NodeStatusRequest;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;
use tonic::transport::Endpoint;

const CONNECTIONS: usize = 8;
const CALLS_PER_CONNECTION: usize = 1_024;
/// Pause of a caller after a call that reached no server.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// Fewer answers or rejections are no flood.
const FLOOD_CALLS_MIN: u64 = 1_000;

/// Keeps calls in flight until the returned runtime is shut down. Counts those that the server
/// answered or rejected.
fn flood(address: &str) -> (Runtime, Arc<AtomicU64>) {
    let callers = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let _in = callers.enter();
    for _ in 0..CONNECTIONS {
        let channel = endpoint.connect_lazy();
        for _ in 0..CALLS_PER_CONNECTION {
            let (mut admin, calls) = (AdminClient::new(channel.clone()), calls.clone());
            callers.spawn(async move {
                loop {
                    match admin.node_status(NodeStatusRequest {}).await {
                        Err(status) if status.code() == tonic::Code::Unavailable => {
                            sleep(ERROR_PAUSE).await;
                        }
                        _ => {
                            calls.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    }
    drop(_in);
    (callers, calls)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_restarted_under_flood_of_status_calls_takes_its_slots() {
    let mut cluster = ProcessCluster::start(1, 1, 3_000).await;
    let (callers, calls) = flood(&cluster.alloc_addresses[0]);
    wait_until("a flood", TEST_TIMEOUT, async || {
        (calls.load(Relaxed) > FLOOD_CALLS_MIN).then_some(())
    })
    .await;
    cluster.kill_alloc(0);
    let before = calls.load(Relaxed);
    cluster.allocs[0].restart();
    // The flood does not reach the store.
    let store = ClientOptions::new([cluster.store_addresses[0].clone()]);
    let admin = Client::new(store).unwrap().admin();
    let started = std::time::Instant::now();
    wait_until(
        "a session of the new process with all slots",
        TEST_TIMEOUT,
        async || {
            let status = admin.cluster_status().await.ok()?;
            let [session] = &status.sessions[..] else {
                return None;
            };
            let is_new = cluster.allocs[0].log().matches("session opened").count() == 2;
            (is_new && session.slots == status.slot_count).then_some(())
        },
    )
    .await;
    println!(
        "slots after {:.1?}, {} calls",
        started.elapsed(),
        calls.load(Relaxed) - before
    );
    assert!(
        calls.load(Relaxed) > before + FLOOD_CALLS_MIN,
        "the flood ended"
    );
    callers.shutdown_background();
    cluster.assert_none_ended();
}
