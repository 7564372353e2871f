//! Planned moves: slots leave AllocSvrs that drain and go to those that join.
//!
//! Measured under load: no call fails, no number is skipped, and the order holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_alloc::Alloc;
use seqsvr_check::{Answer, Call, Kind, Outcome, Sequence};
use seqsvr_client::Client;
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::{
    AdminMoveSlotRequest, ClusterStatusRequest, ClusterStatusResponse, DrainRequest,
};
use tokio::task::JoinHandle;

use crate::harness::{
    Cluster, D, caller, client, counter, create, dense, next_of, refused, settle, until, url,
};
use crate::history::{Stamps, must_hold, numbers};

/// Sections in use, each by one uid, so that a sequence that skips no number rises by one.
const SECTIONS: u64 = 100;

/// A load of single calls, half of them by a caller without routes.
struct Load {
    tasks: Vec<JoinHandle<Vec<Call>>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl Load {
    async fn start(client: &Client, plain: &Alloc, stamps: Stamps) -> Load {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = Vec::new();
        for task in 0..8u64 {
            let (client, plain) = (client.clone(), caller(plain).await);
            let (stop, answered) = (stop.clone(), answered.clone());
            tasks.push(tokio::spawn(async move {
                let mut calls = Vec::new();
                for i in task.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    let uid = i * 7 % SECTIONS;
                    let begin = stamps.now();
                    let answer = if task % 2 == 0 {
                        let taken = client.next("moving", uid, 1).await;
                        taken.as_ref().map(numbers).map_err(ToString::to_string)
                    } else {
                        let taken = plain.clone().next(next_of("moving", uid)).await;
                        let taken = taken.map(tonic::Response::into_inner);
                        let answer = |n: seqsvr_proto::v1::NextResponse| {
                            (Answer::next(n.first, n.last), n.epoch)
                        };
                        taken.map(answer).map_err(|s| s.to_string())
                    };
                    let answer = answer.unwrap_or_else(|e| panic!("a call failed: {e}"));
                    let sequence = Sequence::uid("moving", uid);
                    calls.push(stamps.ended(sequence, begin, Kind::Next, Some(answer)));
                    answered.fetch_add(1, Relaxed);
                }
                calls
            }));
        }
        Load {
            tasks,
            stop,
            answered,
        }
    }

    /// Waits for this many more answers.
    async fn more(&self, answers: u64) {
        let wanted = self.answered.load(Relaxed) + answers;
        until("more calls to be answered", async || {
            assert!(
                !self.tasks.iter().any(JoinHandle::is_finished),
                "a call failed"
            );
            (self.answered.load(Relaxed) >= wanted).then_some(())
        })
        .await;
    }

    async fn stop(self) -> Vec<Call> {
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
async fn moving(allocs: &[Alloc]) {
    create(allocs, &dense("moving", 1, SECTIONS, 1_000_000)).await;
}

async fn status(alloc: &Alloc) -> ClusterStatusResponse {
    let mut admin = AdminClient::connect(url(alloc.local_addr())).await.unwrap();
    let status = admin.cluster_status(ClusterStatusRequest {}).await;
    status.unwrap().into_inner()
}

async fn slots_of(alloc: &Alloc, name: &str) -> u32 {
    let sessions = status(alloc).await.sessions;
    sessions.iter().find(|s| s.name == name).unwrap().slots
}

/// Asserts that every number from 1 on was issued. Only discarded ones may be missing.
fn nothing_skipped(calls: &[Call], burned: u64) {
    must_hold("moves", calls);
    let mut last: BTreeMap<&Sequence, u64> = BTreeMap::new();
    for call in calls {
        if let Outcome::Ok {
            answer: Answer::Next { last: n, .. },
            ..
        } = call.outcome
        {
            let reached = last.entry(&call.sequence).or_default();
            *reached = n.max(*reached);
        }
    }
    assert_eq!(last.len() as u64, SECTIONS);
    let (given, reached) = (calls.len() as u64, last.values().sum::<u64>());
    println!("{given} numbers answered, {reached} reached, {burned} burned");
    assert!(
        reached - given <= burned,
        "the sequences reached {reached} in all, {given} numbers were answered and {burned} burned"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_moves_in_a_row_under_load() {
    let cluster = Cluster::start(3, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    moving(&allocs).await;
    let stamps = Stamps::new();
    let load = Load::start(&client(&allocs), &allocs[1], stamps).await;
    load.more(1_000).await;
    let before = load.answered.load(Relaxed);
    let mut rng = SmallRng::seed_from_u64(3);
    let mut admins = Vec::new();
    for alloc in &allocs {
        admins.push(AdminClient::connect(url(alloc.local_addr())).await.unwrap());
    }
    let mut moved = 0;
    for i in 0..200 {
        let request = AdminMoveSlotRequest {
            slot: rng.random_range(0..64),
            to: format!("a{}", rng.random_range(1..=2)),
            forwarded: false,
        };
        let admin = &mut admins[i % 2];
        let done = admin.move_slot(request.clone()).await;
        let done = done.unwrap_or_else(|e| panic!("move {i}, {request:?}: {e}"));
        moved += u64::from(done.into_inner().epoch > 1);
    }
    let made = counter(&allocs[0], "moves").await + counter(&allocs[1], "moves").await;
    let during = load.answered.load(Relaxed) - before;
    println!("200 moves asked for, {made} made; {during} calls answered meanwhile");
    assert!(made >= 80 && moved > 0 && during >= 1_000);
    load.more(1_000).await;
    let calls = load.stop().await;
    let burned = counter(&allocs[0], "burned").await + counter(&allocs[1], "burned").await;
    nothing_skipped(&calls, burned);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_leave_who_drains_and_come_back_when_it_is_undone() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    moving(&allocs).await;
    let stamps = Stamps::new();
    let load = Load::start(&client(&allocs), &allocs[0], stamps).await;
    load.more(1_000).await;
    let before = load.answered.load(Relaxed);
    let mut admin = AdminClient::connect(url(allocs[0].local_addr()))
        .await
        .unwrap();
    let request = DrainRequest {
        name: "a2".into(),
        undo: false,
        forwarded: false,
    };
    until("a2 to be drained", async || {
        let left = admin.drain(request.clone()).await.unwrap().into_inner();
        (left.slots == 0).then_some(())
    })
    .await;
    assert_eq!(slots_of(&allocs[0], "a2").await, 0);
    assert_eq!(slots_of(&allocs[0], "a1").await, 64);
    let draining = status(&allocs[0]).await.sessions;
    assert!(draining.iter().any(|s| s.name == "a2" && s.draining));
    // No AllocSvr is left to take a1's slots.
    let other = DrainRequest {
        name: "a1".into(),
        ..request.clone()
    };
    let (code, _, text) = refused(admin.drain(other).await);
    assert_eq!(code, tonic::Code::FailedPrecondition, "{text}");
    assert!(text.contains("start one first"), "{text}");
    let nobody = DrainRequest {
        name: "a9".into(),
        ..request.clone()
    };
    let (code, _, text) = refused(admin.drain(nobody).await);
    assert_eq!(code, tonic::Code::InvalidArgument, "{text}");
    assert!(text.contains("a1, a2"), "{text}");

    let undo = DrainRequest {
        undo: true,
        ..request
    };
    admin.drain(undo).await.unwrap();
    until("a2 to have its share again", async || {
        (slots_of(&allocs[0], "a2").await >= 30).then_some(())
    })
    .await;
    assert!(load.answered.load(Relaxed) - before >= 1_000);
    load.more(1_000).await;
    let calls = load.stop().await;
    let burned = counter(&allocs[0], "burned").await + counter(&allocs[1], "burned").await;
    nothing_skipped(&calls, burned);
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_joins_gets_its_share_and_one_that_stops_hands_it_back() {
    let cluster = Cluster::start(3, D).await;
    let [first, second] = cluster.allocs(["a1", "a2"]).await;
    moving(&[first.clone(), second.clone()]).await;
    let stamps = Stamps::new();
    let load = Load::start(&client(&[first.clone(), second.clone()]), &first, stamps).await;
    load.more(1_000).await;
    let third = crate::harness::start(cluster.options("a3")).await;
    until("the share of the third", async || {
        let status = status(&first).await;
        let even = status.moves_planned == 0;
        (even && slots_of(&first, "a3").await >= 20).then_some(())
    })
    .await;
    settle(&[first.clone(), second.clone(), third.clone()]).await;
    load.more(1_000).await;
    let burned = counter(&second, "burned").await;
    second.shutdown().await;
    until("the end of the second's session", async || {
        (status(&first).await.sessions.len() == 2).then_some(())
    })
    .await;
    assert_eq!(status(&first).await.free_slots, 0, "handed over, not freed");
    load.more(1_000).await;
    let calls = load.stop().await;
    let others = counter(&first, "burned").await + counter(&third, "burned").await;
    nothing_skipped(&calls, burned + others);
    cluster.stop(&[first, third]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_moved_is_refused_in_words() {
    let cluster = Cluster::start(1, D).await;
    let [alloc] = cluster.allocs(["a1"]).await;
    let mut admin = AdminClient::connect(url(alloc.local_addr())).await.unwrap();
    let request = |slot, to: &str| AdminMoveSlotRequest {
        slot,
        to: to.into(),
        forwarded: false,
    };
    for (slot, to, words) in [
        (64, "a1", "no slot 64"),
        (70_000, "a1", "no slot 70000"),
        (1, "a2", "no AllocSvr named \"a2\"; there are a1"),
    ] {
        let (code, _, text) = refused(admin.move_slot(request(slot, to)).await);
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
        "the last AllocSvr has nobody to hand over to"
    );
}
