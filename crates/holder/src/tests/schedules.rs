//! Schedules that broke a holder, one by one.

use super::*;

/// Schedule: one request, and no other. Its demand must not count for later workers, which other
/// processes could not hold then.
#[tokio::test(start_paused = true)]
async fn workers_are_acquired_while_callers_are_short_only() {
    let store = FakeStore::new(1);
    *store.is_bad.lock() = false;
    let process = Process::start(&store, 1, 0..=4);
    let mut ids = 0;
    let deadline = Instant::now() + Duration::from_secs(5);
    let one = process
        .holder
        .take_waiting(NonZeroU32::MIN, None, deadline, |_, run| run.count);
    assert_eq!(one.await.unwrap(), 1);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(holders_in(&store).len(), 1);
    // The ids of a second, and more than one worker has ahead of it.
    for _ in 0..2_500 {
        while process
            .holder
            .take(NonZeroU32::MAX, None, |_, run| ids += run.count)
            == Ok(())
        {}
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(holders_in(&store).len(), 4, "{ids} ids");
}

/// Schedule: the answer to the acquisition of the second worker is lost, and so is the first
/// worker. Repeated under another name, that acquisition would be rejected each time.
#[tokio::test(start_paused = true)]
async fn sticky_workers_have_names_of_their_own() {
    let store = FakeStore::new(2);
    let process = Process::start(&store, 1, 3..=3);
    for _ in 0..20 {
        sleep(Duration::from_secs(20)).await;
        store.revoke_any();
    }
    *store.is_bad.lock() = false;
    sleep(Duration::from_secs(60)).await;
    let mut names = holders_in(&store);
    names.sort_unstable();
    assert_eq!(names, ["p1", "p1#2", "p1#3"]);
    drop(process);
}

/// Schedules: callers use up the ids of `ahead`, and in the same tick the holder learns that an
/// operator lowered the longest window, or all limits. It hands its worker back, or keeps it, and
/// continues above the burst: store time was not set back.
#[tokio::test(start_paused = true)]
async fn ids_rise_when_limits_are_lowered() {
    let unchanged = FamilyChange::default;
    let shortest = FamilyChange {
        window_ms: Some(2_000),
        window_max_ms: Some(2_000),
        ..unchanged()
    };
    let far_ahead = FamilyChange {
        ahead_ms: Some(5_000),
        ..unchanged()
    };
    let least = FamilyChange {
        window_ms: Some(1_000),
        ahead_ms: Some(0),
        ..unchanged()
    };
    for (before, lowered) in [(unchanged(), shortest), (far_ahead, least)] {
        let store = FakeStore::new(1);
        *store.is_bad.lock() = false;
        store.alter(before);
        let mut process = Process::start(&store, 1, 1..=1);
        // The next renewal is due after 35 s.
        sleep(Duration::from_secs(31)).await;
        store.alter(lowered);
        process.pause.send_replace(true);
        sleep(Duration::from_millis(4_500)).await;
        let mut seen = HashSet::new();
        while process.take(u32::MAX, &mut seen) > 0 {}
        assert!(seen.len() > 30_000, "{} ids", seen.len());
        process.pause.send_replace(false);
        let burst = seen.len();
        for _ in 0..6_000 {
            sleep(Duration::from_millis(1)).await;
            process.take(1, &mut seen);
        }
        assert!(seen.len() > burst, "no id after {lowered:?}");
    }
}

/// Store time is set back, by more and by less than the longest window: another lane is at its
/// time; without one ids rise, and callers learn for how long there is none.
#[tokio::test(start_paused = true)]
async fn ids_follow_store_time_that_was_set_back_on_another_lane_only() {
    let one = NonZeroU32::MIN;
    for (layout, has_lanes) in [(LAYOUT, true), ("0:1,time:41,worker:2,seq:5", false)] {
        for (back_ms, is_revoked) in [(60_000, false), (7_200_000, false), (60_000, true)] {
            let store = FakeStore::with_layout(1, layout);
            *store.is_bad.lock() = false;
            let process = Process::start(&store, 1, 1..=3);
            sleep(Duration::from_secs(60)).await;
            let used = process.holder.take(one, None, |_, run| run.first).unwrap();
            store.set_back(back_ms);
            if is_revoked {
                store.revoke_any();
            }
            // No further worker helps callers that are short of ids: all begin at what was used.
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(20) {
                let _ = process.holder.take(one, None, |_, run| run.first);
                sleep(Duration::from_millis(50)).await;
            }
            let case = (has_lanes, back_ms, is_revoked);
            assert!(holders_in(&store).len() < 2, "{case:?}");
            let next = process.holder.take(one, None, |_, run| run.first);
            match next {
                Ok(next) => assert!(has_lanes && next < used, "{case:?}"),
                Err(shortage) => {
                    // 20 s have passed, and a second is `ahead`.
                    let left = Duration::from_millis(back_ms - 21_000);
                    let is_left = |wait: Duration| wait.abs_diff(left) < Duration::from_millis(50);
                    assert!(
                        matches!(shortage, Shortage::Full { wait } if is_left(wait)),
                        "{case:?}: {shortage:?}"
                    );
                    let text = process.holder.shortage_error(shortage).to_string();
                    assert!(
                        !has_lanes && text.contains("no id until "),
                        "{case:?}: {text}"
                    );
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn longest_window_of_all_is_renewed() {
    let store = FakeStore::new(1);
    *store.is_bad.lock() = false;
    let mut process = Process::start_with_window(&store, 1, 1..=1, u32::MAX);
    sleep(Duration::from_secs(1)).await;
    let held = process.holder.workers();
    sleep(Duration::from_secs(3 * 3_600)).await;
    assert_eq!(process.take(1, &mut HashSet::new()), 1);
    assert!(Arc::ptr_eq(&held[0], &process.holder.workers()[0]));
}

/// Schedule: the keeper is preempted between the seal of a lost worker and the list with the next
/// one. Callers notice nothing.
#[tokio::test]
async fn callers_wait_for_a_worker_that_is_being_replaced() {
    let store = FakeStore::new(1);
    *store.is_bad.lock() = false;
    let process = Process::start(&store, 1, 1..=1);
    let (one, deadline) = (NonZeroU32::MIN, Instant::now() + Duration::from_secs(5));
    let waited = process.holder.take_waiting(one, None, deadline, |_, _| ());
    waited.await.unwrap();
    let shared = process.holder.shared.clone();
    let (sealed, family) = (process.holder.workers(), store.family());
    let from = sealed[0].generator.seal();
    let replace = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        let grant = v1::WorkerGrant {
            worker: 1,
            epoch: 1,
            until: from + 10_000,
            ..v1::WorkerGrant::default()
        };
        let next = HeldWorker::new(&family.spec, family.limits.sequence_start, &grant, from);
        shared
            .workers
            .store(Arc::new(vec![Arc::new(next.unwrap())]));
    });
    let taken = process.holder.take(one, None, |worker, _| worker.worker());
    replace.join().unwrap();
    assert_eq!(taken, Ok(1));
}

/// Schedule: a holder is closed, or a caller gives up at its deadline, while an acquisition has no
/// answer. Its worker must not lie idle for a window.
#[tokio::test(start_paused = true)]
async fn grant_that_is_answered_after_the_close_is_released() {
    let store = FakeStore::new(1);
    *store.is_bad.lock() = false;
    store.answer_ms.store(1_000, Ordering::Relaxed);
    let process = Process::start(&store, 1, 1..=1);
    sleep(Duration::from_millis(500)).await;
    assert_eq!(holders_in(&store), ["p1"]);
    process.holder.close().await;
    assert!(holders_in(&store).is_empty());
}
