//! Strict mode: correct even if the owner's clock stops and its lease never ends.
//!
//! Fault: the owner is cut off from the stores while its clock is stopped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_alloc::AllocServer;
use seqsvr_check::{CallKind, SequenceName};
use seqsvr_client::{Client, ClientOptions, Code, CurrentKind, NamespaceChange};
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::{
    AdminMoveSlotRequest, CurrentManyRequest, CurrentRequest, NextManyRequest, NextRequest,
};
use seqsvr_proto::v1::{current_request, next_request};
use seqsvr_test_support::in_process::{
    HistoryClock, InProcessCluster, LEASE, check_history, create_namespace, current_answer,
    dense_namespace, expect_rejection, http_url, mark_forwarded, new_caller, new_client,
    next_answer, next_request, read_counter, start_alloc, start_controlled_alloc,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

/// Lease that no busy machine loses: a section that is opened again skips numbers.
const LONG_LEASE: Duration = Duration::from_secs(30);
/// Rounds of moves, at least, before the load beside them ends.
const MOVE_ROUNDS_MIN: u64 = 2;

/// Returns a request with a timeout that is reached on no busy machine.
fn with_long_timeout<T>(request: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(request);
    request.set_timeout(TEST_TIMEOUT);
    request
}

/// Returns a request with a timeout of one second.
fn with_short_timeout<T>(request: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(request);
    request.set_timeout(Duration::from_secs(1));
    request
}

/// Returns whether a call was rejected by the server shortly before the caller's deadline, or, on a
/// busy machine, given up by the caller.
fn is_unanswered(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Cancelled)
}

fn strict_request(uid: u64) -> NextRequest {
    NextRequest {
        strict: true,
        ..next_request("", uid)
    }
}

/// The owner is cut off from the stores while its clock is stopped: by its clock, its lease never
/// ends. Its plain answers fall behind those of the new owner; its strict answers never do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_with_stopped_clock_gives_no_strict_answer() {
    // 1. An owner serves.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let (old, clock, link) = start_controlled_alloc(&cluster, "a1").await;
    let mut plain_caller = new_caller(&old).await;
    let first = plain_caller
        .next(strict_request(1))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(first.first, 1);

    // 2. Stop its clock and cut its link: another owner takes over.
    clock.freeze();
    link.cut();
    let new = start_alloc(cluster.alloc_options("a2")).await;
    let takes = new_caller(&new).await;
    // Until the takeover, the new AllocSvr forwards the call to the old owner.
    let taken = wait_until("an answer of the new owner", TEST_TIMEOUT, async || {
        let taken = takes
            .clone()
            .next(next_request("", 1))
            .await
            .ok()?
            .into_inner();
        (taken.epoch > first.epoch).then_some(taken.last)
    })
    .await;

    // 3. The old owner still serves callers that rely on its clock, out of order.
    let stale = plain_caller
        .next(mark_forwarded(next_request("", 1)))
        .await
        .unwrap()
        .into_inner();
    assert!(stale.first < taken, "{} after {taken}", stale.first);

    // 4. It serves no strict call: it takes numbers and discards them.
    let discarded = read_counter(&old, "numbers_discarded").await;
    for _ in 0..3 {
        let mut request = tonic::Request::new(mark_forwarded(strict_request(1)));
        request.set_timeout(Duration::from_secs(1));
        let (code, _, text) = expect_rejection(plain_caller.next(request).await);
        assert!(is_unanswered(code), "{text}");
        let mut request = tonic::Request::new(CurrentRequest {
            key_kind: Some(current_request::KeyKind::Uid(1)),
            strict: true,
            forwarded: true,
            ..CurrentRequest::default()
        });
        request.set_timeout(Duration::from_secs(1));
        let (code, _, text) = expect_rejection(plain_caller.current(request).await);
        assert!(is_unanswered(code), "{text}");
    }
    assert!(
        read_counter(&old, "numbers_discarded").await > discarded,
        "it took no numbers"
    );

    // 5. Heal the link: it learns that it was deposed, and forwards.
    link.heal();
    // It reaches the stores again, and learns that it was deposed.
    let next = wait_until(
        "an answer of the new owner through the old one",
        TEST_TIMEOUT,
        async || {
            let next = plain_caller.next(strict_request(1)).await.ok()?;
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
    // 1. Load eight sequences with strict calls.
    let cluster = InProcessCluster::start(3, LONG_LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    create_namespace(&allocs, &dense_namespace("n", 1, 64, 1_000)).await;
    let history_clock = HistoryClock::start();
    let moves = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for task in 0..8u64 {
        let client = new_patient_client(&allocs).strict();
        let moves = moves.clone();
        tasks.push(tokio::spawn(async move {
            let mut calls = Vec::new();
            let mut i = 0;
            while i < 150 || moves.load(Relaxed) < MOVE_ROUNDS_MIN {
                let uid = (task + i * 7) % 8;
                let sequence = SequenceName::for_uid("n", uid);
                let begin = history_clock.now_ns();
                if i % 5 == 4 {
                    let answer = client.namespace("n").current(uid).await.unwrap();
                    let answer = Some(current_answer(&answer));
                    calls.push(history_clock.end_call(sequence, begin, CallKind::Current, answer));
                } else {
                    let answer = client.namespace("n").next(uid).await.unwrap();
                    let answer = Some(next_answer(&answer));
                    calls.push(history_clock.end_call(sequence, begin, CallKind::Next, answer));
                }
                i += 1;
            }
            calls
        }));
    }

    // 2. Move all slots back and forth until the load ends.
    let mut admin = AdminClient::connect(http_url(allocs[0].local_addr()))
        .await
        .unwrap();
    while tasks.iter().any(|t| !t.is_finished()) {
        let to = format!("a{}", 1 + moves.load(Relaxed) % 2);
        for slot in 0..64 {
            let to = to.clone();
            let request = AdminMoveSlotRequest {
                slot,
                target_name: to,
                forwarded: false,
            };
            admin.move_slot(request).await.unwrap();
        }
        moves.fetch_add(1, Relaxed);
    }

    // 3. No call failed, and the history holds.
    let mut calls = Vec::new();
    for task in tasks {
        calls.extend(task.await.unwrap());
    }
    check_history("strict", &calls);
    assert!(read_counter(&allocs[0], "ownership_checks").await > 0);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_items_are_confirmed_together() {
    let cluster = InProcessCluster::start(1, LONG_LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let mut plain = new_caller(&allocs[0]).await;
    let many = NextManyRequest {
        uids: (0..500).map(|i| i * 100_000).collect(),
        strict: true,
        ..NextManyRequest::default()
    };
    let many = with_long_timeout(many);
    let answer = plain.next_many(many).await.unwrap().into_inner();
    assert!(answer.errors.is_empty(), "{:?}", answer.errors.first());
    // A number that was not confirmed at once was discarded, and another taken.
    let discarded = read_counter(&allocs[0], "numbers_discarded").await
        + read_counter(&allocs[1], "numbers_discarded").await;
    let firsts = answer.firsts.iter().collect::<BTreeSet<_>>();
    assert!(firsts.len() == 1 || discarded > 0, "{firsts:?}");
    let rounds = read_counter(&allocs[0], "ownership_checks").await;
    assert!((1..=64).contains(&rounds), "{rounds} rounds for 500 items");
    // Forwarded as well: a key of the other owner.
    for uid in 0..64 {
        let next = NextRequest {
            key_kind: Some(next_request::KeyKind::Uid(uid * 100_000)),
            ..strict_request(0)
        };
        let next = plain.next(with_long_timeout(next)).await.unwrap();
        let earlier = answer.firsts[uid as usize];
        assert!(next.get_ref().first > earlier, "{next:?} after {earlier}");
    }
    assert!(read_counter(&allocs[1], "ownership_checks").await > 0);
    let never = new_patient_client(&allocs)
        .strict()
        .default_namespace()
        .current(99u64)
        .await
        .unwrap();
    assert_eq!((never.kind, never.value), (CurrentKind::Never, 0));
    cluster.stop(&allocs).await;
}

/// Creates a client whose calls time out on no busy machine.
fn new_patient_client(allocs: &[AllocServer]) -> Client {
    let servers = allocs.iter().map(|a| a.local_addr().to_string());
    Client::new(ClientOptions::new(servers).with_deadline(TEST_TIMEOUT)).unwrap()
}

/// Makes a namespace strict or not, and waits until its owner has the change.
async fn set_strictness(owner: &AllocServer, name: &str, strict: bool) {
    let alter = NamespaceChange {
        strict: Some(strict),
        ..NamespaceChange::default()
    };
    let admin = new_client(std::slice::from_ref(owner)).admin();
    let altered = admin.alter_namespace(name, alter).await.unwrap();
    assert_eq!(altered.spec.limits.strict, strict);
    wait_until(
        "the owner to have the new table",
        TEST_TIMEOUT,
        async || (read_counter(owner, "table_version").await >= altered.version).then_some(()),
    )
    .await;
}

/// The owner is cut off from the stores, with a stopped clock. Calls without the strict flag are
/// answered in a namespace that is not strict, and not in one that is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strict_namespace_makes_every_call_strict() {
    // 1. An owner serves a strict namespace, one that will be strict, and a plain one.
    let cluster = InProcessCluster::start(1, LONG_LEASE).await;
    let (owner, clock, link) = start_controlled_alloc(&cluster, "a1").await;
    let allocs = [owner];
    let mut born = dense_namespace("born", 10, 1_000, 100);
    born.limits.strict = true;
    create_namespace(&allocs, &born).await;
    for name in ["altered", "plain"] {
        create_namespace(&allocs, &dense_namespace(name, 10, 1_000, 100)).await;
    }
    let [owner] = &allocs;
    let mut plain_caller = new_caller(owner).await;
    for name in ["born", "altered", "plain"] {
        let first = plain_caller
            .next(next_request(name, 1))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(first.first, 1, "{name}");
    }

    // 2. A namespace made strict is answered with a confirmation from then on.
    let rounds = read_counter(owner, "ownership_checks").await;
    plain_caller.next(next_request("altered", 1)).await.unwrap();
    assert_eq!(read_counter(owner, "ownership_checks").await, rounds);
    set_strictness(owner, "altered", true).await;
    plain_caller.next(next_request("altered", 1)).await.unwrap();
    assert!(read_counter(owner, "ownership_checks").await > rounds);

    // 3. Stop the owner's clock and cut its link: no call of a strict namespace is answered.
    clock.freeze();
    link.cut();
    let discarded = read_counter(owner, "numbers_discarded").await;
    for name in ["born", "altered"] {
        let (code, _, text) = expect_rejection(
            plain_caller
                .next(with_short_timeout(next_request(name, 1)))
                .await,
        );
        assert!(is_unanswered(code), "{name}: {text}");
        let many = NextManyRequest {
            namespace: name.into(),
            uids: vec![1, 2],
            ..NextManyRequest::default()
        };
        match plain_caller.next_many(with_short_timeout(many)).await {
            Ok(many) => assert_eq!(many.get_ref().errors.len(), 2, "{name}: {many:?}"),
            Err(status) => assert!(is_unanswered(status.code()), "{name}: {status}"),
        }
        let current = CurrentRequest {
            namespace: name.into(),
            key_kind: Some(current_request::KeyKind::Uid(1)),
            ..CurrentRequest::default()
        };
        let (code, _, text) =
            expect_rejection(plain_caller.current(with_short_timeout(current)).await);
        assert!(is_unanswered(code), "{name}: {text}");
        let many = CurrentManyRequest {
            namespace: name.into(),
            uids: vec![1, 2],
            ..CurrentManyRequest::default()
        };
        match plain_caller.current_many(with_short_timeout(many)).await {
            Ok(many) => assert_eq!(many.get_ref().errors.len(), 2, "{name}: {many:?}"),
            Err(status) => assert!(is_unanswered(status.code()), "{name}: {status}"),
        }
    }
    // A call that came late on a busy machine took no number, so more are sent.
    let what = "six numbers to be taken and not given";
    wait_until(what, TEST_TIMEOUT, async || {
        let taken = read_counter(owner, "numbers_discarded").await - discarded;
        if taken >= 6 {
            return Some(());
        }
        let more = plain_caller.next(with_short_timeout(next_request("born", 1)));
        let (code, _, text) = expect_rejection(more.await);
        assert!(is_unanswered(code), "{text}");
        None
    })
    .await;

    // 4. The plain namespace is still served.
    let plain = plain_caller
        .next(with_long_timeout(next_request("plain", 1)))
        .await
        .unwrap();
    assert_eq!(plain.into_inner().first, 2);

    // 5. Heal the link: a namespace made plain is answered without a confirmation again.
    link.heal();
    clock.thaw();
    // Not strict any more: answered without a confirmation again.
    set_strictness(owner, "altered", false).await;
    let next = plain_caller
        .next(next_request("altered", 1))
        .await
        .unwrap()
        .into_inner();
    assert!(next.first > 3, "{next:?}");
    // A confirmation of an earlier call may end late; a strict call would begin one each time.
    let what = "a call without a confirmation";
    wait_until(what, TEST_TIMEOUT, async || {
        let rounds = read_counter(owner, "ownership_checks").await;
        plain_caller.next(next_request("altered", 1)).await.unwrap();
        (read_counter(owner, "ownership_checks").await == rounds).then_some(())
    })
    .await;
    cluster.stop(&allocs).await;
}
