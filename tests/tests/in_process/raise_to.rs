//! RaiseTo among concurrent calls: it never lowers a number and raises no loaded neighbor.
//!
//! The exact check runs over all calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rand::RngExt;
use seqsvr_check::{Call, Kind, Sequence};
use seqsvr_client::{Client, Reason};
use seqsvr_core::namespace::Spec;

use crate::harness::{Cluster, D, client, create, dense, until};
use crate::history::{Stamps, current, must_hold, numbers, raised};

const NEIGHBOURS: u64 = 6;
const RAISES: u64 = 300;
/// Maximum jump of one RaiseTo in this test.
const JUMP: u64 = 5_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raise_to_never_lowers_and_lifts_no_neighbour() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    let spec = Spec {
        step: 1_000,
        ..Spec::new("lifted", dense("", 100, 1_000, 1).geometry)
    };
    create(&allocs, &spec).await;
    let client = client(&allocs);
    // Loaded before the first raise: after a load all keys start at the section's max_seq.
    client.next("lifted", 0, 1).await.unwrap();

    let shared = Arc::new(Shared {
        client: client.clone(),
        stamps: Stamps::new(),
        stop: AtomicBool::new(false),
        raised: AtomicU64::new(0),
    });
    let mut tasks = Vec::new();
    for task in 0..8 {
        tasks.push(tokio::spawn(shared.clone().call(0, task % 4 == 3)));
    }
    for uid in 1..=NEIGHBOURS {
        tasks.push(tokio::spawn(shared.clone().call(uid, false)));
    }
    for _ in 0..3 {
        tasks.push(tokio::spawn(shared.clone().raise()));
    }
    until("the raises", async || {
        (shared.raised.load(Relaxed) >= RAISES).then_some(())
    })
    .await;
    shared.stop.store(true, Relaxed);
    let mut calls = Vec::new();
    for task in tasks {
        calls.extend(task.await.unwrap());
    }
    let report = must_hold("raise to", &calls);
    assert_eq!(report.errors, 0);
    assert!(report.raise_to >= RAISES && report.current > 0);

    // A neighbor's numbers have no gap: the last one is the count of the taken ones.
    for uid in 1..=NEIGHBOURS {
        let taken = calls_of(&calls, &Sequence::uid("lifted", uid));
        let last = client.current("lifted", uid).await.unwrap().value;
        assert_eq!(last, taken, "uid {uid} was lifted");
    }
    let top = client.next("lifted", 0, 1).await.unwrap().first;
    assert!(
        top > calls_of(&calls, &Sequence::uid("lifted", 0)),
        "uid 0 jumped"
    );

    // A value below the issued numbers is acknowledged, and no number falls.
    client.raise_to("lifted", 0, 1, false).await.unwrap();
    assert_eq!(client.next("lifted", 0, 1).await.unwrap().first, top + 1);
    // A far value needs force; the neighbors stay unchanged.
    let far = 1 << 40;
    let error = client.raise_to("lifted", 0, far, false).await.unwrap_err();
    assert_eq!(error.reason, Reason::AboveBound, "{error}");
    assert_eq!(client.next("lifted", 0, 1).await.unwrap().first, top + 2);
    client.raise_to("lifted", 0, far, true).await.unwrap();
    assert_eq!(client.next("lifted", 0, 1).await.unwrap().first, far + 1);
    let was = client.current("lifted", 1).await.unwrap().value;
    assert_eq!(client.next("lifted", 1, 1).await.unwrap().first, was + 1);
    cluster.stop(&allocs).await;
}

fn calls_of(calls: &[Call], sequence: &Sequence) -> u64 {
    calls.iter().filter(|c| c.sequence == *sequence).count() as u64
}

struct Shared {
    client: Client,
    stamps: Stamps,
    stop: AtomicBool,
    raised: AtomicU64,
}

impl Shared {
    async fn call(self: Arc<Self>, uid: u64, ask: bool) -> Vec<Call> {
        let mut calls = Vec::new();
        while !self.stop.load(Relaxed) {
            let begin = self.stamps.now();
            let (kind, answer) = if ask {
                let answer = self.client.current("lifted", uid).await;
                (Kind::Current, answer.ok().as_ref().map(current))
            } else {
                let answer = self.client.next("lifted", uid, 1).await;
                (Kind::Next, answer.ok().as_ref().map(numbers))
            };
            let sequence = Sequence::uid("lifted", uid);
            calls.push(self.stamps.ended(sequence, begin, kind, answer));
        }
        calls
    }

    /// Raises uid 0, sometimes to a value that it has already passed.
    async fn raise(self: Arc<Self>) -> Vec<Call> {
        let mut calls = Vec::new();
        while !self.stop.load(Relaxed) {
            let at = self.client.current("lifted", 0).await.unwrap().value;
            let jump = rand::rng().random_range(0..JUMP);
            let asked = (at + jump).saturating_sub(JUMP / 4).max(1);
            let begin = self.stamps.now();
            let answer = self.client.raise_to("lifted", 0, asked, false).await;
            let answer = answer.ok().map(|r| raised(asked, &r));
            let sequence = Sequence::uid("lifted", 0);
            calls.push(self.stamps.ended(sequence, begin, Kind::RaiseTo, answer));
            self.raised.fetch_add(1, Relaxed);
        }
        calls
    }
}
