//! Planned moves: slots leave AllocSvrs that drain and go to those that join.
//!
//! Measured under load: no call fails, no number is skipped, and the order holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_alloc::AllocServer;
use seqsvr_check::{CallAnswer, CallKind, CallOutcome, RecordedCall, SequenceName};
use seqsvr_client::Client;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::{
    AdminMoveSlotRequest, ClusterStatusRequest, ClusterStatusResponse, DrainRequest,
};
use seqsvr_test_support::in_process::{
    HistoryClock, InProcessCluster, LEASE, check_history, create_namespace, dense_namespace,
    expect_rejection, http_url, new_caller, new_client, next_answer, next_request, read_counter,
    start_alloc, wait_until_assigned,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::task::JoinHandle;

/// Sections in use, each by one uid, so that a sequence that skips no number rises by one.
const SECTIONS: u64 = 100;

/// A load of single calls, half of them by a caller without routes.
struct MoveLoad {
    tasks: Vec<JoinHandle<Vec<RecordedCall>>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl MoveLoad {
    async fn start(client: &Client, plain: &AllocServer, history_clock: HistoryClock) -> MoveLoad {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = Vec::new();
        for task in 0..8u64 {
            let (client, plain) = (client.clone(), new_caller(plain).await);
            let (stop, answered) = (stop.clone(), answered.clone());
            tasks.push(tokio::spawn(async move {
                let mut calls = Vec::new();
                for i in task.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    let uid = i * 7 % SECTIONS;
                    let begin = history_clock.now_ns();
                    let answer = if task % 2 == 0 {
                        let taken = client.namespace("moving").next(uid).await;
                        taken.as_ref().map(next_answer).map_err(ToString::to_string)
                    } else {
                        let taken = plain.clone().next(next_request("moving", uid)).await;
                        let taken = taken.map(tonic::Response::into_inner);
                        let answer = |n: seqsvr_proto::v1::NextResponse| {
                            (CallAnswer::next_range(n.first, n.last), n.epoch)
                        };
                        taken.map(answer).map_err(|s| s.to_string())
                    };
                    let answer = answer.unwrap_or_else(|e| panic!("a call failed: {e}"));
                    let sequence = SequenceName::for_uid("moving", uid);
                    calls.push(history_clock.end_call(
                        sequence,
                        begin,
                        CallKind::Next,
                        Some(answer),
                    ));
                    answered.fetch_add(1, Relaxed);
                }
                calls
            }));
        }
        MoveLoad {
            tasks,
            stop,
            answered,
        }
    }

    /// Waits for this many more answers.
    async fn wait_for_answers(&self, answers: u64) {
        let wanted = self.answered.load(Relaxed) + answers;
        wait_until("more calls to be answered", TEST_TIMEOUT, async || {
            assert!(
                !self.tasks.iter().any(JoinHandle::is_finished),
                "a call failed"
            );
            (self.answered.load(Relaxed) >= wanted).then_some(())
        })
        .await;
    }

    async fn stop(self) -> Vec<RecordedCall> {
        self.stop.store(true, Relaxed);
        let mut calls = Vec::new();
        for task in self.tasks {
            calls.extend(task.await.unwrap());
        }
        calls
    }
}

/// Creates a namespace with a step far above the used numbers, so that a lost high-water mark shows
/// as a jump.
async fn create_moving_namespace(allocs: &[AllocServer]) {
    create_namespace(allocs, &dense_namespace("moving", 1, SECTIONS, 1_000_000)).await;
}

async fn cluster_status(alloc: &AllocServer) -> ClusterStatusResponse {
    let mut admin = AdminClient::connect(http_url(alloc.local_addr()))
        .await
        .unwrap();
    let status = admin.cluster_status(ClusterStatusRequest {}).await;
    status.unwrap().into_inner()
}

async fn slots_of(alloc: &AllocServer, name: &str) -> u32 {
    let sessions = cluster_status(alloc).await.sessions;
    sessions.iter().find(|s| s.name == name).unwrap().slots
}

/// Asserts that every number from 1 on was issued. Only discarded ones may be missing.
fn assert_nothing_skipped(calls: &[RecordedCall], discarded: u64) {
    check_history("moves", calls);
    let mut last: BTreeMap<&SequenceName, u64> = BTreeMap::new();
    for call in calls {
        if let CallOutcome::Ok {
            answer: CallAnswer::Next { last: n, .. },
            ..
        } = call.outcome
        {
            let reached = last.entry(&call.sequence).or_default();
            *reached = n.max(*reached);
        }
    }
    assert_eq!(last.len() as u64, SECTIONS);
    let (given, reached) = (calls.len() as u64, last.values().sum::<u64>());
    println!("{given} numbers answered, {reached} reached, {discarded} discarded");
    assert!(
        reached - given <= discarded,
        "the sequences reached {reached} in all, {given} numbers were answered and {discarded} discarded"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_moves_under_load_skip_no_number() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    create_moving_namespace(&allocs).await;
    let history_clock = HistoryClock::start();
    let load = MoveLoad::start(&new_client(&allocs), &allocs[1], history_clock).await;
    load.wait_for_answers(1_000).await;
    let before = load.answered.load(Relaxed);
    let mut rng = SmallRng::seed_from_u64(3);
    let mut admins = Vec::new();
    for alloc in &allocs {
        admins.push(
            AdminClient::connect(http_url(alloc.local_addr()))
                .await
                .unwrap(),
        );
    }
    let mut moved = 0;
    for i in 0..200 {
        let request = AdminMoveSlotRequest {
            slot: rng.random_range(0..64),
            target_name: format!("a{}", rng.random_range(1..=2)),
            forwarded: false,
        };
        let admin = &mut admins[i % 2];
        let done = admin.move_slot(request.clone()).await;
        let done = done.unwrap_or_else(|e| panic!("move {i}, {request:?}: {e}"));
        moved += u64::from(done.into_inner().epoch > 1);
    }
    let slots_moved = read_counter(&allocs[0], "slots_moved").await
        + read_counter(&allocs[1], "slots_moved").await;
    let during = load.answered.load(Relaxed) - before;
    println!("200 moves requested, {slots_moved} made; {during} calls answered during them");
    assert!(slots_moved >= 80 && moved > 0 && during >= 1_000);
    load.wait_for_answers(1_000).await;
    let calls = load.stop().await;
    let discarded = read_counter(&allocs[0], "numbers_discarded").await
        + read_counter(&allocs[1], "numbers_discarded").await;
    assert_nothing_skipped(&calls, discarded);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_slots_leave_and_return_when_undone() {
    // 1. Load both AllocSvrs.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    create_moving_namespace(&allocs).await;
    let history_clock = HistoryClock::start();
    let load = MoveLoad::start(&new_client(&allocs), &allocs[0], history_clock).await;
    load.wait_for_answers(1_000).await;
    let before = load.answered.load(Relaxed);

    // 2. Drain a2: its slots leave.
    let mut admin = AdminClient::connect(http_url(allocs[0].local_addr()))
        .await
        .unwrap();
    let request = DrainRequest {
        name: "a2".into(),
        cancel: false,
        forwarded: false,
    };
    wait_until("a2 to be drained", TEST_TIMEOUT, async || {
        let left = admin.drain(request.clone()).await.unwrap().into_inner();
        (left.slots == 0).then_some(())
    })
    .await;
    assert_eq!(slots_of(&allocs[0], "a2").await, 0);
    assert_eq!(slots_of(&allocs[0], "a1").await, 64);
    let draining = cluster_status(&allocs[0]).await.sessions;
    assert!(draining.iter().any(|s| s.name == "a2" && s.draining));

    // 3. A drain without a target or of an unknown name is rejected.
    // No AllocSvr is left to take a1's slots.
    let other = DrainRequest {
        name: "a1".into(),
        ..request.clone()
    };
    let (code, _, text) = expect_rejection(admin.drain(other).await);
    assert_eq!(code, tonic::Code::FailedPrecondition, "{text}");
    assert!(text.contains("start one first"), "{text}");
    let unknown = DrainRequest {
        name: "a9".into(),
        ..request.clone()
    };
    let (code, _, text) = expect_rejection(admin.drain(unknown).await);
    assert_eq!(code, tonic::Code::InvalidArgument, "{text}");
    assert!(text.contains("a1, a2"), "{text}");

    // 4. Undo the drain: a2 gets its share again.
    let cancel = DrainRequest {
        cancel: true,
        ..request
    };
    admin.drain(cancel).await.unwrap();
    wait_until("a2 to have its share again", TEST_TIMEOUT, async || {
        (slots_of(&allocs[0], "a2").await >= 30).then_some(())
    })
    .await;
    assert!(load.answered.load(Relaxed) - before >= 1_000);

    // 5. No call failed and no number was skipped.
    load.wait_for_answers(1_000).await;
    let calls = load.stop().await;
    let discarded = read_counter(&allocs[0], "numbers_discarded").await
        + read_counter(&allocs[1], "numbers_discarded").await;
    assert_nothing_skipped(&calls, discarded);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_alloc_gets_its_share_and_stopping_alloc_returns_it() {
    // 1. Load two AllocSvrs.
    let cluster = InProcessCluster::start(3, LEASE).await;
    let [first, second] = cluster.start_allocs(["a1", "a2"]).await;
    create_moving_namespace(&[first.clone(), second.clone()]).await;
    let history_clock = HistoryClock::start();
    let load = MoveLoad::start(
        &new_client(&[first.clone(), second.clone()]),
        &first,
        history_clock,
    )
    .await;
    load.wait_for_answers(1_000).await;

    // 2. A third joins and gets its share.
    let third = start_alloc(cluster.alloc_options("a3")).await;
    wait_until("the share of the third", TEST_TIMEOUT, async || {
        let status = cluster_status(&first).await;
        let even = status.moves_planned == 0;
        (even && slots_of(&first, "a3").await >= 20).then_some(())
    })
    .await;
    wait_until_assigned(&[first.clone(), second.clone(), third.clone()]).await;
    load.wait_for_answers(1_000).await;

    // 3. The second stops: it hands its slots over.
    let discarded = read_counter(&second, "numbers_discarded").await;
    second.shutdown().await;
    wait_until(
        "the end of the second's session",
        TEST_TIMEOUT,
        async || (cluster_status(&first).await.sessions.len() == 2).then_some(()),
    )
    .await;
    assert_eq!(
        cluster_status(&first).await.free_slots,
        0,
        "handed over, not freed"
    );
    load.wait_for_answers(1_000).await;

    // 4. No call failed and no number was skipped.
    let calls = load.stop().await;
    let discarded_by_others = read_counter(&first, "numbers_discarded").await
        + read_counter(&third, "numbers_discarded").await;
    assert_nothing_skipped(&calls, discarded + discarded_by_others);
    cluster.stop(&[first, third]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn impossible_moves_are_rejected_with_a_reason() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let [alloc] = cluster.start_allocs(["a1"]).await;
    let mut admin = AdminClient::connect(http_url(alloc.local_addr()))
        .await
        .unwrap();
    let request = |slot, to: &str| AdminMoveSlotRequest {
        slot,
        target_name: to.into(),
        forwarded: false,
    };
    for (slot, to, words) in [
        (64, "a1", "no slot 64"),
        (70_000, "a1", "no slot 70000"),
        (1, "a2", "no AllocSvr named \"a2\"; there are a1"),
    ] {
        let (code, _, text) = expect_rejection(admin.move_slot(request(slot, to)).await);
        assert_eq!(code, tonic::Code::InvalidArgument, "{text}");
        assert!(text.contains(words), "{text}");
    }
    // A move to the present owner changes nothing.
    let epoch = admin.move_slot(request(1, "a1")).await.unwrap();
    let again = admin.move_slot(request(1, "a1")).await.unwrap();
    assert_eq!(epoch.into_inner().epoch, again.into_inner().epoch);
    let started = tokio::time::Instant::now();
    cluster.stop(&[alloc]).await;
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "the last AllocSvr has no AllocSvr to hand over to"
    );
}
