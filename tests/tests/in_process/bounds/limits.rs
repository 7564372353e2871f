//! Limits of one server: connections, calls of one connection, items, bytes of a message.
//!
//! Excess is rejected with a reason, and everything within the limit is served.

use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;
use seqsvr_client::{Client, Code, Key, NextItem, Reason};
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{DescribeRequest, NextManyRequest, PipeRequest, pipe_request};
use seqsvr_store::StoreServer;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, any_port, expect_rejection, http_url, new_client, next_request,
    read_counter, start_alloc, wait_until_assigned,
};
use seqsvr_test_support::raw_http2::{Http2Event, RawHttp2};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::transport::Channel;

/// Maximum time of a rejection by the first bytes. A call whose rest does not arrive would end
/// after 10 s.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(5);

async fn connect_caller(address: SocketAddr) -> SequenceClient<Channel> {
    SequenceClient::connect(http_url(address)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_over_limit_is_rejected_and_evicts_no_other() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        connections_max: 3,
        ..cluster.alloc_options("a1")
    })
    .await;
    let address = alloc.local_addr();
    // Requests the table over one connection until it is complete.
    let mut served = vec![connect_caller(address).await];
    wait_until("numbers", TEST_TIMEOUT, async || {
        served[0].next(next_request("", 1)).await.ok()
    })
    .await;
    for _ in 0..2 {
        served.push(connect_caller(address).await);
    }
    for caller in &mut served {
        caller.next(next_request("", 1)).await.unwrap();
    }
    // Rejected at its first call or on connect: the reason may arrive with either.
    let rejection = wait_until("a rejection with the reason", TEST_TIMEOUT, async || {
        let text = match SequenceClient::connect(http_url(address)).await {
            Ok(mut more) => format!("{:?}", more.next(next_request("", 1)).await.unwrap_err()),
            Err(error) => format!("{error:?}"),
        };
        text.contains("too many connections").then_some(text)
    })
    .await;
    assert!(rejection.contains("takes 3 at a time"), "{rejection}");
    for caller in &mut served {
        caller.next(next_request("", 1)).await.unwrap();
    }
    served.pop();
    let mut late_caller = wait_until("the place that is free again", TEST_TIMEOUT, async || {
        let mut late_caller = SequenceClient::connect(http_url(address)).await.ok()?;
        late_caller
            .next(next_request("", 1))
            .await
            .ok()
            .map(|_| late_caller)
    })
    .await;
    late_caller.next(next_request("", 1)).await.unwrap();
    drop(served);
    let rejections = wait_until(
        "a place for the counting caller",
        TEST_TIMEOUT,
        async || {
            let mut admin = seqsvr_proto::v1::admin_client::AdminClient::connect(http_url(address))
                .await
                .ok()?;
            let status = admin.node_status(seqsvr_proto::v1::NodeStatusRequest {});
            Some(status.await.ok()?.into_inner().counters["connections_rejected"])
        },
    )
    .await;
    assert!(rejections >= 1);
    drop(late_caller);
    cluster.stop(&[alloc]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_connection_over_limit_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let store = StoreServer::start(seqsvr_store::Options {
        connections_max: 1,
        ..seqsvr_store::Options::new(1, any_port(), dir.path())
    })
    .await
    .unwrap();
    let address = store.local_addr();
    // The store itself may have the connection at first: it checks its own address.
    let mut first_client = wait_until("a connection", TEST_TIMEOUT, async || {
        let mut client = StoreClient::connect(http_url(address)).await.ok()?;
        client.describe(DescribeRequest {}).await.ok()?;
        Some(client)
    })
    .await;
    wait_until("a rejection with the reason", TEST_TIMEOUT, async || {
        let text = match StoreClient::connect(http_url(address)).await {
            Ok(mut more) => format!("{:?}", more.describe(DescribeRequest {}).await.unwrap_err()),
            Err(error) => format!("{error:?}"),
        };
        text.contains("takes 1 at a time").then_some(())
    })
    .await;
    first_client.describe(DescribeRequest {}).await.unwrap();
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_connection_limit_wait_for_earlier_ones() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        streams_max: 2,
        ..cluster.alloc_options("a1")
    })
    .await;
    wait_until_assigned(std::slice::from_ref(&alloc)).await;
    let channel = Channel::from_shared(http_url(alloc.local_addr()))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut calls = SequenceClient::new(channel.clone());
    calls.next(next_request("", 1)).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..2 {
        let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
        let request = tonic_health::pb::HealthCheckRequest::default();
        let mut watch = health.watch(request).await.unwrap().into_inner();
        watch.message().await.unwrap().unwrap();
        watches.push(watch);
    }
    let third = calls.next(next_request("", 1));
    tokio::pin!(third);
    let early = tokio::time::timeout(Duration::from_millis(300), &mut third).await;
    assert!(early.is_err(), "answered beside two streams: {early:?}");
    // Another connection has its own limit.
    let mut other = connect_caller(alloc.local_addr()).await;
    other.next(next_request("", 1)).await.unwrap();
    watches.pop();
    tokio::time::timeout(Duration::from_secs(10), third)
        .await
        .expect("a stream has ended")
        .unwrap();
    drop(watches);
    cluster.stop(&[alloc]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_and_bytes_over_limit_are_rejected_and_change_nothing() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        batch_items_max: 1_000,
        message_max: 64 << 10,
        ..cluster.alloc_options("a1")
    })
    .await;
    let allocs = [alloc];
    wait_until_assigned(&allocs).await;
    let mut plain = connect_caller(allocs[0].local_addr()).await;
    let many = |n: u64| NextManyRequest {
        uids: (0..n).collect(),
        ..NextManyRequest::default()
    };
    let (code, reason, text) = expect_rejection(plain.next_many(many(1_001)).await);
    assert_eq!(
        (code, reason),
        (Code::InvalidArgument, Reason::LimitExceeded)
    );
    assert!(text.contains("at most 1000 items, not 1001"), "{text}");
    let taken = plain.next_many(many(1_000)).await.unwrap().into_inner();
    assert!(taken.errors.is_empty() && taken.firsts.iter().all(|n| *n == 1));

    // 600 keys of 128 bytes are more than 64 KiB.
    let keys = (0..600).map(|i| format!("{i:0>128}").into()).collect();
    let request = NextManyRequest {
        keys,
        ..NextManyRequest::default()
    };
    let (code, _, text) = expect_rejection(plain.next_many(request).await);
    assert_eq!(code, Code::OutOfRange, "{text}");
    assert!(
        text.contains("too large") && text.contains("65536"),
        "{text}"
    );
    assert_eq!(read_counter(&allocs[0], "numbers_issued").await, 1_000);

    // The SDK splits a batch to the cluster's limits.
    let all: Vec<NextItem> = (0..2_500u64)
        .map(|uid| NextItem::new(Key::Uid(uid)))
        .collect();
    let small = Client::new(
        seqsvr_client::ClientOptions::new([allocs[0].local_addr().to_string()])
            .with_items_max(1_000),
    );
    for answer in small.unwrap().default_namespace().next_batch(&all).await {
        answer.unwrap();
    }
    let failed = new_client(&allocs)
        .default_namespace()
        .next_batch(&all)
        .await;
    let error = failed[0].as_ref().unwrap_err();
    assert_eq!(error.reason(), Reason::LimitExceeded, "{error}");
    cluster.stop(&allocs).await;
}

/// Sends the first bytes of a call. Returns how the call ends before the rest is sent, within this
/// time.
async fn send_half(
    address: SocketAddr,
    path: &str,
    message: &[u8],
    sent: usize,
    within: Duration,
) -> Http2Event {
    let mut raw = RawHttp2::connect(&address.to_string(), 65_535)
        .await
        .unwrap();
    raw.start_call(1, path, message.len(), &message[..sent])
        .await
        .unwrap();
    let ended = tokio::time::timeout(within, async {
        loop {
            match raw.next_event().await.unwrap() {
                Http2Event::Data(_) => {}
                event => break event,
            }
        }
    });
    let ended = ended.await;
    ended.unwrap_or_else(|_| panic!("{path}: it still waits for the rest after {within:?}"))
}

/// The server does not receive four megabytes, or decode them into much more, only to reject them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_too_many_items_are_rejected_before_they_arrive() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let uids = NextManyRequest {
        uids: vec![1; 500_000],
        ..NextManyRequest::default()
    };
    let empty_keys = NextManyRequest {
        keys: vec![Default::default(); 2_000_000],
        ..NextManyRequest::default()
    };
    let mut plain = connect_caller(allocs[0].local_addr()).await;
    for (request, begun) in [(uids, 100), (empty_keys, 45_000)] {
        let frame = PipeRequest {
            id: 1,
            timeout_ms: 0,
            operation: Some(pipe_request::Operation::Next(request.clone())),
        };
        for (path, message) in [
            ("NextMany", request.encode_to_vec()),
            ("Pipe", frame.encode_to_vec()),
        ] {
            let path = format!("/seqsvr.v1.Sequence/{path}");
            let address = allocs[0].local_addr();
            let event = send_half(address, &path, &message, begun, REJECTION_TIMEOUT).await;
            assert_eq!(event, Http2Event::End, "{path}");
        }
        let (code, reason, text) = expect_rejection(plain.next_many(request).await);
        assert_eq!(
            (code, reason),
            (Code::InvalidArgument, Reason::LimitExceeded)
        );
        assert!(text.contains("at most 10000 items"), "{text}");
    }
    assert_eq!(read_counter(&allocs[0], "numbers_issued").await, 0);
    plain.next(next_request("", 1)).await.unwrap();
    cluster.stop(&allocs).await;
}

/// Schedule: thousands of calls that any caller may make, each with half of its message. They held
/// up to 4 MiB each, without end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_calls_of_admin_health_and_reflection_end() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let servers = [allocs[0].local_addr(), cluster.store(0).local_addr()];
    let paths = [
        "/seqsvr.v1.Admin/CreateNamespace",
        "/seqsvr.v1.Admin/Backup",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ];
    // The first is too large for all of them: its length shows it.
    let (large, small) = (vec![0; 4 << 20], vec![0; 16 << 10]);
    let calls = servers.iter().flat_map(|server| {
        let (large, small) = (&large, &small);
        paths.iter().flat_map(move |path| {
            [
                send_half(*server, path, large, 10_000, REJECTION_TIMEOUT),
                send_half(*server, path, small, 10_000, TEST_TIMEOUT),
            ]
        })
    });
    for event in futures::future::join_all(calls).await {
        assert_eq!(event, Http2Event::End);
    }
    wait_until("no half is held", TEST_TIMEOUT, async || {
        let held = read_counter(&allocs[0], "request_buffer_bytes").await;
        (held < 10_000).then_some(())
    })
    .await;
    cluster.stop(&allocs).await;
}
