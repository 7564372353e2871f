//! RaiseTo among concurrent calls: it never lowers a number and raises no loaded neighbor.
//!
//! The exact check runs over all calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rand::RngExt;
use seqsvr_check::{CallKind, RecordedCall, SequenceName};
use seqsvr_client::{Client, Reason};
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_test_support::in_process::{
    HistoryClock, InProcessCluster, LEASE, check_history, create_namespace, current_answer,
    dense_namespace, new_client, next_answer, raise_answer,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

const NEIGHBORS: u64 = 6;
const RAISES: u64 = 300;
/// Maximum jump of one RaiseTo in this test.
const JUMP_MAX: u64 = 5_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raise_to_never_lowers_and_raises_no_neighbor() {
    // 1. Load a section with a sequence to raise and its neighbors.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let spec = NamespaceSpec {
        step: 1_000,
        ..NamespaceSpec::new("lifted", dense_namespace("", 100, 1_000, 1).geometry)
    };
    create_namespace(&allocs, &spec).await;
    let client = new_client(&allocs);
    // Loaded before the first raise: after a load all keys start at the section's max_seq.
    client.namespace("lifted").next(0).await.unwrap();

    // 2. Take, read and raise at the same time.
    let shared = Arc::new(RaiseLoad {
        client: client.clone(),
        history_clock: HistoryClock::start(),
        stop: AtomicBool::new(false),
        raised: AtomicU64::new(0),
    });
    let mut tasks = Vec::new();
    for task in 0..8 {
        tasks.push(tokio::spawn(shared.clone().run_calls(0, task % 4 == 3)));
    }
    for uid in 1..=NEIGHBORS {
        tasks.push(tokio::spawn(shared.clone().run_calls(uid, false)));
    }
    for _ in 0..3 {
        tasks.push(tokio::spawn(shared.clone().run_raises()));
    }
    wait_until("the raises", TEST_TIMEOUT, async || {
        (shared.raised.load(Relaxed) >= RAISES).then_some(())
    })
    .await;

    // 3. No call failed, and the history holds.
    shared.stop.store(true, Relaxed);
    let mut calls = Vec::new();
    for task in tasks {
        calls.extend(task.await.unwrap());
    }
    let report = check_history("raise to", &calls);
    assert_eq!(report.errors, 0);
    assert!(report.raise_to >= RAISES && report.current > 0);

    // 4. A neighbor's numbers have no gap: the last one is the count of the taken ones.
    for uid in 1..=NEIGHBORS {
        let taken = count_calls(&calls, &SequenceName::for_uid("lifted", uid));
        let last = client.namespace("lifted").current(uid).await.unwrap().value;
        assert_eq!(last, taken, "uid {uid} was lifted");
    }
    let top = client.namespace("lifted").next(0).await.unwrap().first;
    assert!(
        top > count_calls(&calls, &SequenceName::for_uid("lifted", 0)),
        "uid 0 jumped"
    );

    // 5. A value below the issued numbers is acknowledged, and no number falls.
    client.namespace("lifted").raise_to(0, 1).await.unwrap();
    assert_eq!(
        client.namespace("lifted").next(0).await.unwrap().first,
        top + 1
    );

    // 6. A far value needs force; the neighbors stay unchanged.
    let far = 1 << 40;
    let error = client
        .namespace("lifted")
        .raise_to(0, far)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::JumpTooLarge, "{error}");
    assert_eq!(
        client.namespace("lifted").next(0).await.unwrap().first,
        top + 2
    );
    client
        .namespace("lifted")
        .raise_to(0, far)
        .force(true)
        .await
        .unwrap();
    assert_eq!(
        client.namespace("lifted").next(0).await.unwrap().first,
        far + 1
    );
    let was = client.namespace("lifted").current(1).await.unwrap().value;
    assert_eq!(
        client.namespace("lifted").next(1).await.unwrap().first,
        was + 1
    );
    cluster.stop(&allocs).await;
}

fn count_calls(calls: &[RecordedCall], sequence: &SequenceName) -> u64 {
    calls.iter().filter(|c| c.sequence == *sequence).count() as u64
}

struct RaiseLoad {
    client: Client,
    history_clock: HistoryClock,
    stop: AtomicBool,
    raised: AtomicU64,
}

impl RaiseLoad {
    async fn run_calls(self: Arc<Self>, uid: u64, reads_current: bool) -> Vec<RecordedCall> {
        let mut calls = Vec::new();
        while !self.stop.load(Relaxed) {
            let begin = self.history_clock.now_ns();
            let (kind, answer) = if reads_current {
                let answer = self.client.namespace("lifted").current(uid).await;
                (CallKind::Current, answer.ok().as_ref().map(current_answer))
            } else {
                let answer = self.client.namespace("lifted").next(uid).await;
                (CallKind::Next, answer.ok().as_ref().map(next_answer))
            };
            let sequence = SequenceName::for_uid("lifted", uid);
            calls.push(self.history_clock.end_call(sequence, begin, kind, answer));
        }
        calls
    }

    /// Raises uid 0, sometimes to a value that it has already passed.
    async fn run_raises(self: Arc<Self>) -> Vec<RecordedCall> {
        let mut calls = Vec::new();
        while !self.stop.load(Relaxed) {
            let at = self
                .client
                .namespace("lifted")
                .current(0)
                .await
                .unwrap()
                .value;
            let jump = rand::rng().random_range(0..JUMP_MAX);
            let value = (at + jump).saturating_sub(JUMP_MAX / 4).max(1);
            let begin = self.history_clock.now_ns();
            let answer = self.client.namespace("lifted").raise_to(0, value).await;
            let answer = answer.ok().map(|r| raise_answer(value, &r));
            let sequence = SequenceName::for_uid("lifted", 0);
            calls.push(
                self.history_clock
                    .end_call(sequence, begin, CallKind::RaiseTo, answer),
            );
            self.raised.fetch_add(1, Relaxed);
        }
        calls
    }
}
