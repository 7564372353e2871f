//! The limits of one server: connections, calls of one connection, items, bytes of a message. What
//! is above is refused in words, and what is below goes on.

use std::net::SocketAddr;
use std::time::Duration;

use seqsvr_client::{Client, Code, Key, NextItem, Reason};
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DescribeRequest, NextManyRequest};
use seqsvr_store::Store;
use tonic::transport::Channel;

use crate::harness::{
    Cluster, D, any, client, counter, next_of, refused, settle, start, until, url,
};

async fn connect(address: SocketAddr) -> SequenceClient<Channel> {
    SequenceClient::connect(url(address)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_too_many_is_told_so_and_takes_nobody_elses_place() {
    let cluster = Cluster::start(1, D).await;
    let alloc = start(seqsvr_alloc::Options {
        connections_max: 3,
        ..cluster.options("a1")
    })
    .await;
    let address = alloc.local_addr();
    // Asks one connection for the table until it is whole.
    let mut served = vec![connect(address).await];
    until("numbers", async || {
        served[0].next(next_of("", 1)).await.ok()
    })
    .await;
    for _ in 0..2 {
        served.push(connect(address).await);
    }
    for one in &mut served {
        one.next(next_of("", 1)).await.unwrap();
    }
    // Refused at its first call, or when it connects: the reason may be read at either.
    let told = until("a refusal in words", async || {
        let text = match SequenceClient::connect(url(address)).await {
            Ok(mut more) => format!("{:?}", more.next(next_of("", 1)).await.unwrap_err()),
            Err(error) => format!("{error:?}"),
        };
        text.contains("too many connections").then_some(text)
    })
    .await;
    assert!(told.contains("takes 3 at a time"), "{told}");
    for one in &mut served {
        one.next(next_of("", 1)).await.unwrap();
    }
    served.pop();
    let mut late = until("the place that is free again", async || {
        let mut late = SequenceClient::connect(url(address)).await.ok()?;
        late.next(next_of("", 1)).await.ok().map(|_| late)
    })
    .await;
    late.next(next_of("", 1)).await.unwrap();
    drop(served);
    let refused = until("a place for the one who counts", async || {
        let mut admin = seqsvr_proto::v1::admin_client::AdminClient::connect(url(address))
            .await
            .ok()?;
        let status = admin.node_status(seqsvr_proto::v1::NodeStatusRequest {});
        Some(status.await.ok()?.into_inner().counters["connections_refused"])
    })
    .await;
    assert!(refused >= 1);
    drop(late);
    cluster.stop(&[alloc]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_refuses_a_connection_too_many() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::start(seqsvr_store::Options {
        connections_max: 1,
        ..seqsvr_store::Options::new(1, any(), dir.path())
    })
    .await
    .unwrap();
    let address = store.local_addr();
    let mut one = StoreClient::connect(url(address)).await.unwrap();
    one.describe(DescribeRequest {}).await.unwrap();
    until("a refusal in words", async || {
        let text = match StoreClient::connect(url(address)).await {
            Ok(mut more) => format!("{:?}", more.describe(DescribeRequest {}).await.unwrap_err()),
            Err(error) => format!("{error:?}"),
        };
        text.contains("takes 1 at a time").then_some(())
    })
    .await;
    one.describe(DescribeRequest {}).await.unwrap();
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_above_the_bound_of_a_connection_wait_for_those_before() {
    let cluster = Cluster::start(1, D).await;
    let alloc = start(seqsvr_alloc::Options {
        streams_max: 2,
        ..cluster.options("a1")
    })
    .await;
    settle(std::slice::from_ref(&alloc)).await;
    let channel = Channel::from_shared(url(alloc.local_addr()))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut calls = SequenceClient::new(channel.clone());
    calls.next(next_of("", 1)).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..2 {
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
        let request = tonic_health::pb::HealthCheckRequest::default();
        let mut watch = health.watch(request).await.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        watches.push(watch);
    }
    let third = calls.next(next_of("", 1));
    tokio::pin!(third);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut third).await;
    assert!(early.is_err(), "answered beside two streams: {early:?}");
    // Another connection has a bound of its own.
    let mut other = connect(alloc.local_addr()).await;
    other.next(next_of("", 1)).await.unwrap();
    watches.pop();
    tokio::time::timeout(Duration::from_secs(10), third)
        .await
        .expect("a stream has ended")
        .unwrap();
    drop(watches);
    cluster.stop(&[alloc]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_and_bytes_above_the_bounds_are_refused_and_harm_nothing() {
    let cluster = Cluster::start(1, D).await;
    let alloc = start(seqsvr_alloc::Options {
        items_max: 1_000,
        message_max: 64 << 10,
        ..cluster.options("a1")
    })
    .await;
    let allocs = [alloc];
    settle(&allocs).await;
    let mut plain = connect(allocs[0].local_addr()).await;
    let many = |n: u64| NextManyRequest {
        uids: (0..n).collect(),
        ..NextManyRequest::default()
    };
    let (code, reason, text) = refused(plain.next_many(many(1_001)).await);
    assert_eq!((code, reason), (Code::InvalidArgument, Reason::TooMany));
    assert!(text.contains("at most 1000 items, not 1001"), "{text}");
    let taken = plain.next_many(many(1_000)).await.unwrap().into_inner();
    assert!(taken.errors.is_empty() && taken.firsts.iter().all(|n| *n == 1));

    // 600 keys of 128 bytes are more than 64 KiB.
    let keys = (0..600).map(|i| format!("{i:0>128}").into()).collect();
    let request = NextManyRequest {
        keys,
        ..NextManyRequest::default()
    };
    let (code, _, text) = refused(plain.next_many(request).await);
    assert_eq!(code, Code::OutOfRange, "{text}");
    assert!(
        text.contains("too large") && text.contains("65536"),
        "{text}"
    );
    assert_eq!(counter(&allocs[0], "numbers").await, 1_000);

    // The SDK sends what the cluster takes.
    let all: Vec<NextItem> = (0..2_500u64)
        .map(|uid| NextItem::new(Key::Uid(uid)))
        .collect();
    let small = Client::new(seqsvr_client::Options {
        items_max: 1_000,
        ..seqsvr_client::Options::new([allocs[0].local_addr().to_string()])
    });
    for answer in small.unwrap().next_many("", &all).await {
        answer.unwrap();
    }
    let failed = client(&allocs).next_many("", &all).await;
    let error = failed[0].as_ref().unwrap_err();
    assert_eq!(error.reason, Reason::TooMany, "{error}");
    cluster.stop(&allocs).await;
}
