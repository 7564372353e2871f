//! Sections are opened and closed, and AllocSvrs start and stop, without a skipped number and
//! without an error.
//!
//! No fault, except stopped stores in one test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_check::{CallKind, SequenceName};
use seqsvr_client::CurrentKind;
use seqsvr_test_support::in_process::{
    HistoryClock, InProcessCluster, LEASE, check_history, create_namespace, dense_namespace,
    new_caller, new_client, next_answer, next_request, read_counter, start_alloc,
    wait_until_assigned,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tonic::Request;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_restart_continues_at_the_next_number() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let [old] = cluster.start_allocs(["a1"]).await;
    let client = new_client(std::slice::from_ref(&old));
    let never = client.default_namespace().current(42).await.unwrap();
    assert_eq!((never.kind, never.value), (CurrentKind::Never, 0));
    assert_eq!(
        client.default_namespace().next_n(42, 5).await.unwrap().last,
        5
    );
    let exact = client.default_namespace().current(42).await.unwrap();
    assert_eq!((exact.kind, exact.value), (CurrentKind::Exact, 5));
    let neighbor = client.default_namespace().current(43).await.unwrap();
    assert_eq!(neighbor.kind, CurrentKind::Never);
    old.shutdown().await;

    let [new] = cluster.start_allocs(["a1"]).await;
    let client = new_client(std::slice::from_ref(&new));
    let bound = client.default_namespace().current(42).await.unwrap();
    assert_eq!((bound.kind, bound.value), (CurrentKind::AtMost, 5));
    assert_eq!(
        read_counter(&new, "opens").await,
        0,
        "a read opens no section"
    );
    let next = client.default_namespace().next(42).await.unwrap();
    assert_eq!(next.first, 6, "the high-water mark was lost");
    assert!(next.epoch > exact.epoch);
    let neighbor = client.default_namespace().current(43).await.unwrap();
    assert_eq!((neighbor.kind, neighbor.value), (CurrentKind::AtMost, 5));
    cluster.stop(&[new]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_section_is_closed_and_reopened_without_a_jump() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        section_idle_timeout: Duration::from_millis(400),
        ..cluster.alloc_options("a1")
    })
    .await;
    let allocs = [alloc];
    wait_until_assigned(&allocs).await;
    let client = new_client(&allocs);
    for round in 0..3 {
        let taken = client.default_namespace().next_n(1, 2).await.unwrap();
        assert_eq!(taken.first, 2 * round + 1);
        wait_until("the section to be closed", TEST_TIMEOUT, async || {
            (read_counter(&allocs[0], "closes").await > round).then_some(())
        })
        .await;
        assert_eq!(read_counter(&allocs[0], "sections_loaded").await, 0);
        let bound = client.default_namespace().current(1).await.unwrap();
        assert_eq!(
            (bound.kind, bound.value),
            (CurrentKind::AtMost, 2 * round + 2)
        );
    }
    cluster.stop(&allocs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_sections_over_memory_budget_are_closed_without_an_error() {
    // 1. Start an AllocSvr with little memory.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let alloc = start_alloc(seqsvr_alloc::Options {
        memory_budget: 16 << 10,
        ..cluster.alloc_options("a1")
    })
    .await;
    let allocs = [alloc];
    wait_until_assigned(&allocs).await;
    create_namespace(&allocs, &dense_namespace("hot", 10, 1_000, 1_000)).await;

    // 2. Load more sections than fit, until some are closed.
    let client = new_client(&allocs);
    let stop = Arc::new(AtomicBool::new(false));
    let history_clock = HistoryClock::start();
    let tasks: Vec<_> = (0..16u64)
        .map(|task| {
            let (client, stop) = (client.clone(), stop.clone());
            tokio::spawn(async move {
                let mut calls = Vec::new();
                while !stop.load(Relaxed) {
                    // Two tasks for each uid, each uid in a section of its own.
                    let uid = task / 2 * 10;
                    let begin = history_clock.now_ns();
                    let answer = client.namespace("hot").next(uid).await.unwrap();
                    let sequence = SequenceName::for_uid("hot", uid);
                    let answer = Some(next_answer(&answer));
                    calls.push(history_clock.end_call(sequence, begin, CallKind::Next, answer));
                }
                calls
            })
        })
        .collect();
    wait_until("busy sections to be closed", TEST_TIMEOUT, async || {
        (read_counter(&allocs[0], "closes").await >= 8).then_some(())
    })
    .await;

    // 3. No call failed, and the history holds.
    stop.store(true, Relaxed);
    let mut calls = Vec::new();
    for task in tasks {
        calls.extend(task.await.unwrap());
    }
    let closes = read_counter(&allocs[0], "closes").await;
    println!("memory budget: {closes} busy sections closed");
    check_history("memory budget", &calls);

    // 4. The closes carried the high-water marks: no number was skipped.
    for section in 0..8 {
        let uid = section * 10;
        let sequence = SequenceName::for_uid("hot", uid);
        let taken = calls.iter().filter(|c| c.sequence == sequence).count() as u64;
        assert_eq!(
            client.namespace("hot").next(uid).await.unwrap().first,
            taken + 1
        );
    }
    cluster.stop(&allocs).await;
}

/// Schedule: a section's raise is in flight when the store stops, and its callers give up. They
/// leave no state behind, and the process still ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_give_up_leave_no_state_behind() {
    // 1. A section is loaded, and no store runs.
    let mut cluster = InProcessCluster::start(1, LEASE).await;
    let [alloc] = cluster.start_allocs(["a1"]).await;
    let allocs = [alloc];
    create_namespace(&allocs, &dense_namespace("tight", 10, 1_000, 4)).await;
    let mut plain = new_caller(&allocs[0]).await;
    plain.next(next_request("tight", 1)).await.unwrap();
    cluster.stop_stores().await;

    // 2. Callers wait for its window, then give up.
    let begun: Vec<_> = (0..200)
        .map(|_| {
            let mut plain = plain.clone();
            tokio::spawn(async move {
                let mut request = Request::new(next_request("tight", 1));
                request.set_timeout(Duration::from_secs(30));
                plain.next(request).await.map(drop)
            })
        })
        .collect();
    wait_until("callers to wait for the window", TEST_TIMEOUT, async || {
        (read_counter(&allocs[0], "window_waits").await >= 190).then_some(())
    })
    .await;
    for caller in &begun {
        caller.abort();
    }

    // 3. No state of them is left, and the process ends.
    wait_until("the waiting to end", TEST_TIMEOUT, async || {
        (read_counter(&allocs[0], "window_waiters").await == 0).then_some(())
    })
    .await;
    tokio::time::timeout(TEST_TIMEOUT, allocs[0].shutdown())
        .await
        .expect("the shutdown ends");
    cluster.stop(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_stop_under_load_fails_no_call() {
    // 1. Load both AllocSvrs.
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let client = new_client(&allocs);
    let stop = Arc::new(AtomicBool::new(false));
    let history_clock = HistoryClock::start();
    let tasks: Vec<_> = (0..16u64)
        .map(|task| {
            let (client, stop) = (client.clone(), stop.clone());
            tokio::spawn(async move {
                let (mut calls, mut longest) = (Vec::new(), 0);
                let uid = task / 2 * 100_000;
                while !stop.load(Relaxed) {
                    let begin = history_clock.now_ns();
                    let answer = client.default_namespace().next(uid).await.unwrap();
                    longest = longest.max(history_clock.now_ns() - begin);
                    let sequence = SequenceName::for_uid("default", uid);
                    let answer = Some(next_answer(&answer));
                    calls.push(history_clock.end_call(sequence, begin, CallKind::Next, answer));
                }
                (calls, longest)
            })
        })
        .collect();
    wait_until("some numbers of both", TEST_TIMEOUT, async || {
        for alloc in &allocs {
            (read_counter(alloc, "numbers_issued").await > 100).then_some(())?;
        }
        Some(())
    })
    .await;

    // 2. Stop one of them: the other continues.
    let before = read_counter(&allocs[1], "numbers_issued").await;
    allocs[0].shutdown().await;
    wait_until_assigned(&allocs[1..]).await;
    wait_until("the other to continue", TEST_TIMEOUT, async || {
        (read_counter(&allocs[1], "numbers_issued").await > before + 500).then_some(())
    })
    .await;

    // 3. No call failed, and the history holds.
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
    check_history("planned stop", &all);
    cluster.stop(&allocs[1..]).await;
}
