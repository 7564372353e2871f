//! Strict mode: correct even if the owner's clock stops and its lease never ends.
//!
//! Fault: the owner is cut off from the stores while its clock is stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_alloc::{Alloc, Environment};
use seqsvr_check::{Kind, Sequence};
use seqsvr_client::{Alter, Code, CurrentKind};
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::{
    AdminMoveSlotRequest, CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest,
};
use seqsvr_proto::v1::{current_request, next_request};

use crate::clock::TestClock;
use crate::harness::{
    Cluster, D, caller, client, counter, create, dense, forwarded, next_of, refused, settle, until,
    url,
};
use crate::history::{Stamps, current, must_hold, numbers};
use crate::link::Link;

/// Returns a request with a timeout of one second.
fn short<T>(request: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(request);
    request.set_timeout(Duration::from_secs(1));
    request
}

/// Returns whether a call was rejected by the server shortly before the caller's deadline, or, on a
/// busy machine, given up by the caller.
fn unanswered(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Cancelled)
}

fn strict(uid: u64) -> NextRequest {
    NextRequest {
        strict: true,
        ..next_of("", uid)
    }
}

/// The owner is cut off from the stores while its clock is stopped: by its clock, its lease never
/// ends. Its plain answers fall behind those of the new owner; its strict answers never do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_clock_stands_still_gives_no_strict_answer() {
    let cluster = Cluster::start(1, D).await;
    let (link, clock) = (Link::new(), Arc::new(TestClock::default()));
    let environment = Environment {
        clock: clock.clone(),
        transport: Arc::new(link.clone()),
        ..Environment::system()
    };
    let old = Alloc::start_in(cluster.options("a1"), environment)
        .await
        .unwrap();
    settle(std::slice::from_ref(&old)).await;
    let mut asked = caller(&old).await;
    let first = asked.next(strict(1)).await.unwrap().into_inner();
    assert_eq!(first.first, 1);
    clock.freeze();
    link.cut();
    let new = crate::harness::start(cluster.options("a2")).await;
    let takes = caller(&new).await;
    // Until the takeover, the new AllocSvr forwards the call to the old owner.
    let taken = until("an answer of the new owner", async || {
        let taken = takes.clone().next(next_of("", 1)).await.ok()?.into_inner();
        (taken.epoch > first.epoch).then_some(taken.last)
    })
    .await;
    // It still serves callers that rely on its clock, out of order …
    let stale = asked
        .next(forwarded(next_of("", 1)))
        .await
        .unwrap()
        .into_inner();
    assert!(stale.first < taken, "{} after {taken}", stale.first);
    // … and none that does not.
    let burned = counter(&old, "burned").await;
    for _ in 0..3 {
        let mut request = tonic::Request::new(forwarded(strict(1)));
        request.set_timeout(Duration::from_secs(1));
        let (code, _, text) = refused(asked.next(request).await);
        assert!(unanswered(code), "{text}");
        let mut request = tonic::Request::new(CurrentRequest {
            key_kind: Some(current_request::KeyKind::Uid(1)),
            strict: true,
            forwarded: true,
            ..CurrentRequest::default()
        });
        request.set_timeout(Duration::from_secs(1));
        let (code, _, text) = refused(asked.current(request).await);
        assert!(unanswered(code), "{text}");
    }
    assert!(counter(&old, "burned").await > burned, "it took no numbers");
    link.heal();
    // It reaches the stores again, and learns that it was deposed.
    let next = until(
        "an answer of the new owner through the old one",
        async || {
            let next = asked.next(strict(1)).await.ok()?;
            Some(next.into_inner().first)
        },
    )
    .await;
    assert!(next > taken, "{next} after {taken}");
    clock.thaw();
    cluster.stop(&[old, new]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_calls_under_moves_are_answered_in_order() {
    let cluster = Cluster::start(3, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    create(&allocs, &dense("n", 1, 64, 1_000)).await;
    let stamps = Stamps::new();
    let mut tasks = Vec::new();
    for task in 0..8u64 {
        let client = client(&allocs).strict();
        tasks.push(tokio::spawn(async move {
            let mut calls = Vec::new();
            for i in 0..150u64 {
                let uid = (task + i * 7) % 8;
                let sequence = Sequence::uid("n", uid);
                let begin = stamps.now();
                if i % 5 == 4 {
                    let answer = client.current("n", uid).await.unwrap();
                    let answer = Some(current(&answer));
                    calls.push(stamps.ended(sequence, begin, Kind::Current, answer));
                } else {
                    let answer = client.next("n", uid, 1).await.unwrap();
                    let answer = Some(numbers(&answer));
                    calls.push(stamps.ended(sequence, begin, Kind::Next, answer));
                }
            }
            calls
        }));
    }
    let mut admin = AdminClient::connect(url(allocs[0].local_addr()))
        .await
        .unwrap();
    let mut moves = 0;
    while tasks.iter().any(|t| !t.is_finished()) {
        let to = format!("a{}", 1 + moves % 2);
        for slot in 0..64 {
            let to = to.clone();
            let request = AdminMoveSlotRequest {
                slot,
                to,
                forwarded: false,
            };
            admin.move_slot(request).await.unwrap();
        }
        moves += 1;
    }
    assert!(moves > 1, "nothing moved");
    let mut calls = Vec::new();
    for task in tasks {
        calls.extend(task.await.unwrap());
    }
    must_hold("strict", &calls);
    assert!(counter(&allocs[0], "guard_rounds").await > 0);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_items_are_confirmed_together() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    let mut plain = caller(&allocs[0]).await;
    let many = NextManyRequest {
        uids: (0..500).map(|i| i * 100_000).collect(),
        strict: true,
        ..NextManyRequest::default()
    };
    let answer = plain.next_many(many).await.unwrap().into_inner();
    assert!(answer.errors.is_empty(), "{:?}", answer.errors.first());
    // A number that was not confirmed at once was discarded, and another taken.
    let burned = counter(&allocs[0], "burned").await + counter(&allocs[1], "burned").await;
    let firsts = answer.firsts.iter().collect::<BTreeSet<_>>();
    assert!(firsts.len() == 1 || burned > 0, "{firsts:?}");
    let rounds = counter(&allocs[0], "guard_rounds").await;
    assert!((1..=64).contains(&rounds), "{rounds} rounds for 500 items");
    // Forwarded as well: a key of the other owner.
    for uid in 0..64 {
        let next = NextRequest {
            key_kind: Some(next_request::KeyKind::Uid(uid * 100_000)),
            ..strict(0)
        };
        assert_eq!(plain.next(next).await.unwrap().into_inner().first, 2);
    }
    assert!(counter(&allocs[1], "guard_rounds").await > 0);
    let never = client(&allocs).strict().current("", 99u64).await.unwrap();
    assert_eq!((never.kind, never.value), (CurrentKind::Never, 0));
    cluster.stop(&allocs).await;
}

/// Makes a namespace strict or not, and waits until its owner has the change.
async fn alter(owner: &Alloc, name: &str, strict: bool) {
    let alter = Alter {
        strict: Some(strict),
        ..Alter::default()
    };
    let admin = client(std::slice::from_ref(owner)).admin();
    let altered = admin.alter_namespace(name, alter).await.unwrap();
    assert_eq!(altered.spec.limits.strict, strict);
    until("the owner to have the new table", async || {
        (counter(owner, "table_version").await >= altered.version).then_some(())
    })
    .await;
}

/// The owner is cut off from the stores, with a stopped clock. Calls without the strict flag are
/// answered in a namespace that is not strict, and not in one that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_strict_namespace_is_strict() {
    let cluster = Cluster::start(1, D).await;
    let (link, clock) = (Link::new(), Arc::new(TestClock::default()));
    let environment = Environment {
        clock: clock.clone(),
        transport: Arc::new(link.clone()),
        ..Environment::system()
    };
    let owner = Alloc::start_in(cluster.options("a1"), environment)
        .await
        .unwrap();
    let allocs = [owner];
    settle(&allocs).await;
    let mut born = dense("born", 10, 1_000, 100);
    born.limits.strict = true;
    create(&allocs, &born).await;
    for name in ["altered", "plain"] {
        create(&allocs, &dense(name, 10, 1_000, 100)).await;
    }
    let [owner] = &allocs;
    let mut asked = caller(owner).await;
    for name in ["born", "altered", "plain"] {
        let first = asked.next(next_of(name, 1)).await.unwrap().into_inner();
        assert_eq!(first.first, 1, "{name}");
    }
    // "altered" is not strict at first: it is answered without a confirmation.
    let rounds = counter(owner, "guard_rounds").await;
    asked.next(next_of("altered", 1)).await.unwrap();
    assert_eq!(counter(owner, "guard_rounds").await, rounds);
    alter(owner, "altered", true).await;
    asked.next(next_of("altered", 1)).await.unwrap();
    assert!(counter(owner, "guard_rounds").await > rounds);

    clock.freeze();
    link.cut();
    let burned = counter(owner, "burned").await;
    for name in ["born", "altered"] {
        let (code, _, text) = refused(asked.next(short(next_of(name, 1))).await);
        assert!(unanswered(code), "{name}: {text}");
        let many = NextManyRequest {
            namespace: name.into(),
            uids: vec![1, 2],
            ..NextManyRequest::default()
        };
        match asked.next_many(short(many)).await {
            Ok(many) => assert_eq!(many.get_ref().errors.len(), 2, "{name}: {many:?}"),
            Err(status) => assert!(unanswered(status.code()), "{name}: {status}"),
        }
        let current = CurrentRequest {
            namespace: name.into(),
            key_kind: Some(current_request::KeyKind::Uid(1)),
            ..CurrentRequest::default()
        };
        let (code, _, text) = refused(asked.current(short(current)).await);
        assert!(unanswered(code), "{name}: {text}");
        let many = CurrentManyRequest {
            namespace: name.into(),
            uids: vec![1, 2],
            ..CurrentManyRequest::default()
        };
        match asked.current_many(short(many)).await {
            Ok(many) => assert_eq!(many.get_ref().errors.len(), 2, "{name}: {many:?}"),
            Err(status) => assert!(unanswered(status.code()), "{name}: {status}"),
        }
    }
    let took = counter(owner, "burned").await - burned;
    assert!(took >= 6, "{took} numbers were taken and not given");
    let plain = asked.next(short(next_of("plain", 1))).await.unwrap();
    assert_eq!(plain.into_inner().first, 2);

    link.heal();
    clock.thaw();
    // Not strict any more: answered without a confirmation again.
    alter(owner, "altered", false).await;
    let next = asked
        .next(next_of("altered", 1))
        .await
        .unwrap()
        .into_inner();
    assert!(next.first > 3, "{next:?}");
    let rounds = counter(owner, "guard_rounds").await;
    asked.next(next_of("altered", 1)).await.unwrap();
    assert_eq!(counter(owner, "guard_rounds").await, rounds);
    cluster.stop(&allocs).await;
}
