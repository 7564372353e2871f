//! Bad input over gRPC: each mistake gives a clear error.
//!
//! Checks after each error that no state changed.

use std::time::Duration;

use seqsvr_client::{Code, Key, Reason};
use seqsvr_core::SEQ_MAX;
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_core::progression::Progression;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::{self, NextManyRequest, NextRequest, RaiseToRequest};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, expect_rejection, new_caller,
    new_client, next_request,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_rejected_with_a_reason_and_change_nothing() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    create_namespace(&allocs, &dense_namespace("small", 10, 1_000, 50)).await;
    let mut plain = new_caller(&allocs[0]).await;
    let before = plain.next(next_request("small", 1)).await.unwrap();
    assert_eq!(before.into_inner().last, 1);

    let counted = |count, namespace: &str| NextRequest {
        count: Some(count),
        ..next_request(namespace, 1)
    };
    let keyed = |namespace: &str, key: &[u8]| NextRequest {
        key_kind: Some(KeyKind::Key(key.to_vec().into())),
        ..next_request(namespace, 0)
    };
    let cases = [
        (
            "count 0",
            counted(0, ""),
            Code::InvalidArgument,
            Reason::Invalid,
        ),
        (
            "count above the limit",
            counted(100_001, ""),
            Code::InvalidArgument,
            Reason::LimitExceeded,
        ),
        (
            "count above the window",
            counted(51, "small"),
            Code::InvalidArgument,
            Reason::LimitExceeded,
        ),
        (
            "unknown namespace",
            next_request("nowhere", 1),
            Code::NotFound,
            Reason::NamespaceNotFound,
        ),
        (
            "empty key",
            keyed("", b""),
            Code::InvalidArgument,
            Reason::Invalid,
        ),
        (
            "long key",
            keyed("", &[b'x'; 129]),
            Code::InvalidArgument,
            Reason::Invalid,
        ),
        (
            "key in dense",
            keyed("small", b"alice"),
            Code::InvalidArgument,
            Reason::Invalid,
        ),
        (
            "uid at max_uid",
            next_request("small", 1_000),
            Code::InvalidArgument,
            Reason::Invalid,
        ),
        (
            "uid above 2^32",
            next_request("", 1 << 40),
            Code::InvalidArgument,
            Reason::Invalid,
        ),
        (
            "no key at all",
            NextRequest {
                key_kind: None,
                ..next_request("", 0)
            },
            Code::InvalidArgument,
            Reason::Invalid,
        ),
    ];
    for (what, request, code, reason) in cases {
        let (got, why, text) = expect_rejection(plain.next(request).await);
        println!("bad input: {what}: {text}");
        assert_eq!((got, why), (code, reason), "{what}: {text}");
        assert!(text.len() > 20, "{what}: is too short: {text}");
    }
    let zero = RaiseToRequest {
        key_kind: Some(v1::raise_to_request::KeyKind::Uid(1)),
        ..RaiseToRequest::default()
    };
    assert_eq!(
        expect_rejection(plain.raise_to(zero).await).1,
        Reason::Invalid
    );
    let none = NextManyRequest::default();
    assert_eq!(
        expect_rejection(plain.next_many(none).await).1,
        Reason::Invalid
    );
    let both = NextManyRequest {
        uids: vec![1],
        keys: vec![b"a".to_vec().into()],
        ..NextManyRequest::default()
    };
    assert_eq!(
        expect_rejection(plain.next_many(both).await).1,
        Reason::Invalid
    );
    // An error does not repeat an invalid name, least of all for each item.
    let long = NextManyRequest {
        namespace: "x".repeat(100_000),
        uids: vec![1; 1_000],
        ..NextManyRequest::default()
    };
    let (_, reason, text) = expect_rejection(plain.next_many(long).await);
    assert_eq!(reason, Reason::NamespaceNotFound);
    assert!(text.contains("at most 64") && text.len() < 200, "{text}");
    let long = next_request(&"x".repeat(100_000), 1);
    assert_eq!(
        expect_rejection(plain.next(long).await).1,
        Reason::NamespaceNotFound
    );
    let crowd = NextManyRequest {
        uids: vec![1; 10_001],
        ..NextManyRequest::default()
    };
    assert_eq!(
        expect_rejection(plain.next_many(crowd).await).1,
        Reason::LimitExceeded
    );

    // The client reports the same error at once, not at its deadline.
    let client = new_client(&allocs).with_deadline(Duration::from_secs(30));
    let cases = [
        (
            client.default_namespace().next_n(1, 0).await,
            Code::InvalidArgument,
        ),
        (
            client.default_namespace().next_n(1, 100_001).await,
            Code::InvalidArgument,
        ),
        (
            client.namespace("small").next_n(1, 51).await,
            Code::InvalidArgument,
        ),
        (client.namespace("nowhere").next(1).await, Code::NotFound),
        (
            client.default_namespace().next("").await,
            Code::InvalidArgument,
        ),
        (
            client.default_namespace().next("x".repeat(129)).await,
            Code::InvalidArgument,
        ),
        (
            client.namespace("small").next("alice").await,
            Code::InvalidArgument,
        ),
        (
            client.namespace("small").next(1_000).await,
            Code::InvalidArgument,
        ),
    ];
    for (i, (answer, code)) in cases.into_iter().enumerate() {
        let error = answer.expect_err("should be rejected");
        assert_eq!(error.code(), code, "{i}: {error}");
        assert!(error.gave_up_after().is_none(), "{i}: {error}");
    }
    // No state changed: the next number follows the previous one.
    assert_eq!(client.namespace("small").next(1).await.unwrap().first, 2);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_sequence_ends_at_seq_max() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let start = SEQ_MAX - 24;
    let spec = NamespaceSpec {
        progression: Progression {
            start,
            stride: 1,
            offset: 0,
        },
        ..dense_namespace("late", 10, 1_000, 10)
    };
    create_namespace(&allocs, &spec).await;
    let client = new_client(&allocs);
    for i in 0..25 {
        assert_eq!(
            client.namespace("late").next(3).await.unwrap().first,
            start + i
        );
    }
    for _ in 0..3 {
        let error = client.namespace("late").next(3).await.unwrap_err();
        assert_eq!(
            (error.code(), error.reason()),
            (Code::OutOfRange, Reason::SequenceExhausted)
        );
        assert!(error.gave_up_after().is_none(), "{error}");
    }
    let now = client.namespace("late").current(3).await.unwrap();
    assert_eq!(
        (now.kind, now.value),
        (seqsvr_client::CurrentKind::Exact, SEQ_MAX)
    );
    // Others are served as before, in the same section and in another.
    assert_eq!(client.namespace("late").next(4).await.unwrap().first, start);
    assert_eq!(
        client.namespace("late").next_n(14, 10).await.unwrap().first,
        start
    );
    // A batch that exceeds the remaining numbers is rejected as a whole; one that fits is served.
    let error = client
        .namespace("late")
        .next_n(4, 10)
        .await
        .and(client.namespace("late").next_n(4, 10).await)
        .and(client.namespace("late").next_n(4, 10).await);
    assert_eq!(error.unwrap_err().reason(), Reason::SequenceExhausted);
    assert_eq!(
        client.namespace("late").next_n(4, 4).await.unwrap().last,
        SEQ_MAX
    );
    let past = client
        .namespace("late")
        .raise_to(Key::Uid(14), SEQ_MAX)
        .force(true)
        .await
        .unwrap();
    assert_eq!(past.value, SEQ_MAX);
    let error = client.namespace("late").next(14).await.unwrap_err();
    assert_eq!(error.reason(), Reason::SequenceExhausted);
    cluster.stop(&allocs).await;
}
