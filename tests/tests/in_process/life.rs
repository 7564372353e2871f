//! Sections are opened and closed, and AllocSvrs start and stop, without a skipped number and
//! without an error.
//!
//! No fault, except stopped stores in one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_check::{Kind, Sequence};
use seqsvr_client::CurrentKind;
use tonic::Request;

use crate::harness::{
    Cluster, D, caller, client, counter, create, dense, next_of, settle, start, until,
};
use crate::history::{Stamps, must_hold, numbers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_restart_goes_on_at_the_next_number() {
    let cluster = Cluster::start(1, D).await;
    let [old] = cluster.allocs(["a1"]).await;
    let asked = client(std::slice::from_ref(&old));
    let never = asked.current("", 42).await.unwrap();
    assert_eq!((never.kind, never.value), (CurrentKind::Never, 0));
    assert_eq!(asked.next("", 42, 5).await.unwrap().last, 5);
    let exact = asked.current("", 42).await.unwrap();
    assert_eq!((exact.kind, exact.value), (CurrentKind::Exact, 5));
    let neighbour = asked.current("", 43).await.unwrap();
    assert_eq!(neighbour.kind, CurrentKind::Never);
    old.shutdown().await;

    let [new] = cluster.allocs(["a1"]).await;
    let asked = client(std::slice::from_ref(&new));
    let bound = asked.current("", 42).await.unwrap();
    assert_eq!((bound.kind, bound.value), (CurrentKind::AtMost, 5));
    assert_eq!(counter(&new, "opens").await, 0, "asking opens nothing");
    let next = asked.next("", 42, 1).await.unwrap();
    assert_eq!(next.first, 6, "the final was lost");
    assert!(next.epoch > exact.epoch);
    let neighbour = asked.current("", 43).await.unwrap();
    assert_eq!((neighbour.kind, neighbour.value), (CurrentKind::AtMost, 5));
    cluster.stop(&[new]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_section_is_closed_and_opened_again_without_a_jump() {
    let cluster = Cluster::start(1, D).await;
    let alloc = start(seqsvr_alloc::Options {
        idle_after: Duration::from_millis(400),
        ..cluster.options("a1")
    })
    .await;
    let allocs = [alloc];
    settle(&allocs).await;
    let client = client(&allocs);
    for round in 0..3 {
        let taken = client.next("", 1, 2).await.unwrap();
        assert_eq!(taken.first, 2 * round + 1);
        until("the section to be closed", async || {
            (counter(&allocs[0], "closes").await > round).then_some(())
        })
        .await;
        assert_eq!(counter(&allocs[0], "sections_loaded").await, 0);
        let bound = client.current("", 1).await.unwrap();
        assert_eq!(
            (bound.kind, bound.value),
            (CurrentKind::AtMost, 2 * round + 2)
        );
    }
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_the_memory_budget_busy_sections_are_closed_without_an_error() {
    let cluster = Cluster::start(1, D).await;
    let alloc = start(seqsvr_alloc::Options {
        memory_budget: 16 << 10,
        ..cluster.options("a1")
    })
    .await;
    let allocs = [alloc];
    settle(&allocs).await;
    create(&allocs, &dense("hot", 10, 1_000, 1_000)).await;
    let client = client(&allocs);
    let stop = Arc::new(AtomicBool::new(false));
    let stamps = Stamps::new();
    let tasks: Vec<_> = (0..16u64)
        .map(|task| {
            let (client, stop) = (client.clone(), stop.clone());
            tokio::spawn(async move {
                let mut calls = Vec::new();
                while !stop.load(Relaxed) {
                    // Two tasks for each uid, each uid in a section of its own.
                    let uid = task / 2 * 10;
                    let begin = stamps.now();
                    let answer = client.next("hot", uid, 1).await.unwrap();
                    let sequence = Sequence::uid("hot", uid);
                    let answer = Some(numbers(&answer));
                    calls.push(stamps.ended(sequence, begin, Kind::Next, answer));
                }
                calls
            })
        })
        .collect();
    until("busy sections to be closed", async || {
        (counter(&allocs[0], "closes").await >= 8).then_some(())
    })
    .await;
    stop.store(true, Relaxed);
    let mut calls = Vec::new();
    for task in tasks {
        calls.extend(task.await.unwrap());
    }
    let closes = counter(&allocs[0], "closes").await;
    println!("memory budget: {closes} busy sections closed");
    must_hold("memory budget", &calls);
    // The closes carried the high-water marks: no number was skipped.
    for section in 0..8 {
        let uid = section * 10;
        let sequence = Sequence::uid("hot", uid);
        let taken = calls.iter().filter(|c| c.sequence == sequence).count() as u64;
        assert_eq!(client.next("hot", uid, 1).await.unwrap().first, taken + 1);
    }
    cluster.stop(&allocs).await;
}

/// Schedule: a section's raise is in flight when the store stops, and its callers give up. They
/// leave no state behind, and the process still ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_give_up_leave_nothing_behind() {
    let mut cluster = Cluster::start(1, D).await;
    let [alloc] = cluster.allocs(["a1"]).await;
    let allocs = [alloc];
    create(&allocs, &dense("tight", 10, 1_000, 4)).await;
    let mut plain = caller(&allocs[0]).await;
    plain.next(next_of("tight", 1)).await.unwrap();
    cluster.stop_stores().await;
    let begun: Vec<_> = (0..200)
        .map(|_| {
            let mut plain = plain.clone();
            tokio::spawn(async move {
                let mut request = Request::new(next_of("tight", 1));
                request.set_timeout(Duration::from_secs(30));
                plain.next(request).await.map(drop)
            })
        })
        .collect();
    until("callers to wait for the window", async || {
        (counter(&allocs[0], "waited_for_refill").await >= 190).then_some(())
    })
    .await;
    for caller in &begun {
        caller.abort();
    }
    until("the waiting to end", async || {
        (counter(&allocs[0], "waiting_for_refill").await == 0).then_some(())
    })
    .await;
    tokio::time::timeout(crate::harness::PATIENCE, allocs[0].shutdown())
        .await
        .expect("the shutdown ends");
    cluster.stop(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_stop_under_load_shows_no_caller_an_error() {
    let cluster = Cluster::start(1, D).await;
    let allocs = cluster.allocs(["a1", "a2"]).await;
    let client = client(&allocs);
    let stop = Arc::new(AtomicBool::new(false));
    let stamps = Stamps::new();
    let tasks: Vec<_> = (0..16u64)
        .map(|task| {
            let (client, stop) = (client.clone(), stop.clone());
            tokio::spawn(async move {
                let (mut calls, mut longest) = (Vec::new(), 0);
                let uid = task / 2 * 100_000;
                while !stop.load(Relaxed) {
                    let begin = stamps.now();
                    let answer = client.next("", uid, 1).await.unwrap();
                    longest = longest.max(stamps.now() - begin);
                    let sequence = Sequence::uid("default", uid);
                    let answer = Some(numbers(&answer));
                    calls.push(stamps.ended(sequence, begin, Kind::Next, answer));
                }
                (calls, longest)
            })
        })
        .collect();
    until("some numbers of both", async || {
        for alloc in &allocs {
            (counter(alloc, "numbers").await > 100).then_some(())?;
        }
        Some(())
    })
    .await;
    let before = counter(&allocs[1], "numbers").await;
    allocs[0].shutdown().await;
    settle(&allocs[1..]).await;
    until("the other to go on", async || {
        (counter(&allocs[1], "numbers").await > before + 500).then_some(())
    })
    .await;
    stop.store(true, Relaxed);
    let (mut all, mut longest) = (Vec::new(), 0);
    for task in tasks {
        let (calls, slowest) = task.await.unwrap();
        all.extend(calls);
        longest = longest.max(slowest);
    }
    println!(
        "planned stop: longest call {:?}",
        Duration::from_nanos(longest)
    );
    must_hold("planned stop", &all);
    cluster.stop(&allocs[1..]).await;
}
