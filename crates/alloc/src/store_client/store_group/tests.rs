use std::sync::mpsc;

use seqsvr_core::ids::ClusterId;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::KeepAliveResponse;
use tokio::runtime::Builder;
use tonic::transport::server::{Server, TcpIncoming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::*;
use crate::store_client::open_attempt::ABANDONED_ATTEMPT_MIN;

fn stores(addresses: [&str; 3]) -> StoreGroupClient {
    let cluster = OwnCluster::default();
    cluster.decide(ClusterId(1));
    let random = RandomSource::new(Some(1));
    let addresses = addresses.map(str::to_owned);
    let (channels, runtime) = (ChannelPool::new(), Handle::current());
    StoreGroupClient::new(&addresses, channels, random, Arc::new(cluster), runtime)
}

fn renewed(tag: u64) -> Result<KeepAliveResponse, RpcError> {
    Ok(KeepAliveResponse {
        cluster_tag: tag,
        ..KeepAliveResponse::default()
    })
}

fn failed(reason: Reason, tag: u64) -> Result<KeepAliveResponse, RpcError> {
    Err(RpcError::new(reason, "").with_cluster_tag(ClusterTag(tag)))
}

#[tokio::test]
async fn store_group_is_foreign_only_by_majority() {
    let stores = stores(["a:1", "b:1", "c:1"]);
    assert!(!stores.is_foreign(), "no store has answered");
    let stray = stores.check_answer("a:1", renewed(2)).unwrap_err();
    assert_eq!(stray.reason(), Reason::ClusterMismatch);
    let dead = stores.check_answer("b:1", failed(Reason::Unreachable, 0));
    assert_eq!(dead.unwrap_err().reason(), Reason::Unreachable);
    assert!(!stores.is_foreign(), "the others may be starting");
    // A store of this cluster that cannot answer yet.
    let waiting = stores.check_answer("b:1", failed(Reason::NotLeader, 1));
    assert_eq!(waiting.unwrap_err().reason(), Reason::NotLeader);
    let stray = stores.check_answer("c:1", failed(Reason::SessionNotFound, 2));
    let stray = stray.unwrap_err().reason();
    assert_eq!(
        stray,
        Reason::ClusterMismatch,
        "another cluster ends no session"
    );
    assert!(!stores.is_foreign(), "one store is of this cluster");
    let _ = stores.check_answer("b:1", failed(Reason::Unreachable, 0));
    assert!(
        stores.is_foreign(),
        "two of three, and none of this cluster"
    );
}

/// Schedule: callers relay as many calls as a connection to the store takes at a time, and the
/// store does not answer them. On one connection the renewal would wait without end.
#[tokio::test]
async fn full_connection_delays_no_call_of_another_kind() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap().to_string();
    let (_reporter, health) = tonic_health::server::health_reporter();
    tokio::spawn(
        Server::builder()
            .max_concurrent_streams(1)
            .add_service(health)
            .serve_with_incoming(incoming),
    );
    let lease = stores([&address, "b:1", "c:1"]);
    let (commands, relayed) = (lease.on_own_connections(), lease.for_relayed_calls());
    let mut held = Vec::new();
    for group in [relayed.clone(), commands] {
        let (_, channel) = group.preferred_channel().unwrap();
        let mut client = HealthClient::new(channel);
        let watch = client.watch(HealthCheckRequest::default());
        held.push(watch.await.expect("the only stream of its connection"));
    }
    let (_, channel) = lease.preferred_channel().unwrap();
    let mut client = HealthClient::new(channel);
    let check = client.check(HealthCheckRequest::default());
    let answer = tokio::time::timeout(Duration::from_secs(5), check).await;
    answer.expect("it waits behind no other call").unwrap();
    relayed.prefer_next(&address, "");
    assert_eq!(relayed.preferred_channel().unwrap().0, "b:1");
    assert_eq!(lease.preferred_channel().unwrap().0, address);
}

/// Schedule: s1 accepts connections and does not answer; the callers of relayed calls go away
/// before an attempt times out.
#[tokio::test(start_paused = true)]
async fn store_that_leaves_abandoned_call_unanswered_is_not_tried_again_at_once() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let stores = stores([&address, "b:1", "c:1"]);
    let abandon_after = async |time| {
        let minute = Duration::from_secs(60);
        let check = |channel| async move {
            let request = HealthCheckRequest::default();
            HealthClient::new(channel).check(request).await
        };
        let call = stores.call(Instant::now() + minute, minute, check);
        let _ = tokio::time::timeout(time, call).await.unwrap_err();
        stores.preferred_channel().unwrap().0
    };
    assert_eq!(abandon_after(Duration::from_millis(1)).await, address);
    assert_eq!(abandon_after(2 * ABANDONED_ATTEMPT_MIN).await, "b:1");
}

#[tokio::test]
async fn hint_that_is_no_address_is_not_followed_again() {
    let stores = stores(["a:1", "b:1", "c:1"]);
    stores.prefer_next("a:1", "no address");
    stores.preferred_channel().unwrap_err();
    assert_eq!(stores.preferred_channel().unwrap().0, "b:1");
}

/// Schedule: a command from the background is the first to connect to a new leader; then the
/// background gets no processor. Were the connection one of its tasks, no keep-alive would
/// succeed.
#[tokio::test]
async fn store_connection_outlives_background_runtime() {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = incoming.local_addr().unwrap().to_string();
    let (_, health) = tonic_health::server::health_reporter();
    tokio::spawn(
        Server::builder()
            .add_service(health)
            .serve_with_incoming(incoming),
    );
    let stores = StoreGroupClient::new(
        &[address],
        ChannelPool::new(),
        RandomSource::new(Some(1)),
        Arc::default(),
        Handle::current(),
    );
    let background = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let asking = stores.clone();
    let made = background.spawn(async move { asking.preferred_channel().unwrap().1 });
    let channel = made.await.unwrap();
    let (give_back, taken) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    background.spawn(async move {
        begun.send(()).unwrap();
        let _ = taken.recv();
    });
    has_begun.recv().unwrap();
    let mut client = HealthClient::new(channel);
    let checked = client.check(HealthCheckRequest::default());
    let answer = tokio::time::timeout(Duration::from_secs(5), checked).await;
    answer.expect("an answer").expect("it serves");
    drop(give_back);
    background.shutdown_background();
}

/// Schedule: the clocks of the stores are suspect. If the answer counted as that of a store that
/// does not lead, callers would read that no store leads.
#[test]
fn answer_of_the_leader_about_the_time_is_final() {
    for (reason, retries) in [
        (Reason::ClockSuspect, false),
        (Reason::TooFarAhead, false),
        (Reason::NotLeader, true),
        (Reason::Unreachable, true),
    ] {
        assert_eq!(
            should_retry(&RpcError::new(reason, "")),
            retries,
            "{reason:?}"
        );
    }
}
