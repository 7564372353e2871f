//! Ends and bounds: of a layout, of store time, of epochs over a restore, of one name's workers.

use super::*;

/// Schedule: worker 7 is granted after the backup, at epoch 1. Its holder renews in the restored
/// cluster, where another one has the worker.
#[test]
fn holder_unknown_to_a_backup_extends_no_grant_of_the_restored_cluster() {
    let never = FamilySpec {
        reuse_never: true,
        ..snowflake()
    };
    for spec in [snowflake(), never] {
        let mut old = cluster_of(spec);
        let backup = old.for_backup();
        let (worker, epoch, ..) = granted(old.acquire(1, "a", None));
        let margins = backup.least_margins();
        let mut new = backup.restored(ClusterId(9), margins).unwrap();
        new.at(margins.ids_from_ms.unwrap());
        let (of_b, epoch_of_b, ..) = granted(new.acquire(2, "b", None));
        assert_eq!(of_b, worker);
        assert!(epoch_of_b > epoch + margins.epoch);
        assert!(is_stale(new.renew(worker, epoch)));
        assert!(is_stale(new.release(worker, epoch, 0)));
        // The next restore lifts it again.
        let again = new.restored(ClusterId(10), new.least_margins()).unwrap();
        let floors = [&new, &again].map(|state| state.family(FAMILY).unwrap().epoch_floor);
        assert!(floors[1] > floors[0]);
    }
}

/// Schedule: a family is made after the backup, by a cluster whose clocks are ahead. It is made
/// again in the restored cluster, which is at the time of the backup.
#[test]
fn family_made_again_after_a_restore_grants_no_tick_again() {
    for level in [1, 3] {
        let mut old = cluster();
        old.one(Command::SetLevel { level });
        let backup = old.for_backup();
        let mut old = cluster_of(snowflake());
        let until = granted(old.acquire(1, "a", None)).3;
        let margins = RestoreMargins {
            ids_from_ms: Some(until),
            ..backup.least_margins()
        };
        let mut new = backup.restored(ClusterId(9), margins).unwrap();
        assert_eq!(State::from_rows(new.rows()).as_ref(), Some(&new));
        new.one(Command::SetLevel { level: 3 });
        new.at(until + 9_000);
        let (now_ms, resets) = (1, 0);
        assert_eq!(new.ids(IdsCommand::SetTime { now_ms, resets }), Reply::Done);
        // The next restore needs no margin of ids: there are no families.
        let again = new.restored(ClusterId(10), new.least_margins()).unwrap();
        for mut state in [new, again] {
            let (spec, limits) = (snowflake(), FamilyLimits::DEFAULT);
            let made = state.ids(IdsCommand::CreateFamily { spec, limits });
            assert_eq!(made, Reply::Family(FAMILY));
            state.at(until - 1_001);
            let waits = rejected(state.acquire(2, "b", None));
            assert_eq!(waits.cause, Cause::TooFarAhead, "{waits}");
            state.at(until - 500);
            let (worker, _, from, _) = granted(state.acquire(3, "b", None));
            assert_eq!((worker, from), (0, until));
        }
    }
}

#[test]
fn nonce_counts_for_its_holder_only() {
    let mut state = cluster_of(snowflake());
    let first = granted(state.acquire(1, "a", None));
    assert_eq!(granted(state.acquire(1, "a", None)), first);
    for (nonce, holder) in [(1, "b"), (0, "a")] {
        let reply = state.acquire(nonce, holder, None);
        assert!(
            matches!(reply, Reply::Rejected(CommandRejection::Invalid(_))),
            "{reply:?}"
        );
    }
}

/// A wait of ticks of 1 h, of a family whose `ahead` is half of one.
#[test]
fn wait_ends_when_the_retry_succeeds() {
    let hour = 3_600_000;
    let spec = FamilySpec {
        scale: TickScale::new(0, hour).unwrap(),
        ..spec("0:1,time:20,worker:1,seq:12")
    };
    let limits = FamilyLimits {
        window_ms: 2 * hour as u32,
        window_max_ms: 2 * hour as u32,
        ahead_ms: hour as u32 / 2,
        ..FamilyLimits::DEFAULT
    };
    let mut state = cluster();
    state.one(Command::SetLevel { level: 3 });
    state.ids(IdsCommand::CreateFamily { spec, limits });
    state.at(10 * hour + hour / 4);
    state.acquire(1, "a", Some(0));
    assert_eq!(state.release(0, 1, 11), Reply::Done);
    let wait_ms = rejected(state.acquire(2, "a", Some(0))).retry_after_ms;
    let wait_ms = wait_ms.unwrap();
    let now_ms = state.store_time().high_ms;
    state.at(now_ms + wait_ms - 1);
    rejected(state.acquire(3, "a", Some(0)));
    state.at(now_ms + wait_ms);
    granted(state.acquire(4, "a", Some(0)));
}

#[test]
fn grant_that_reaches_too_far_is_released_not_awaited() {
    let mut state = cluster_of(snowflake());
    state.acquire(1, "a", None);
    let back = IdsCommand::SetTime {
        now_ms: 1,
        resets: 0,
    };
    let lower = IdsCommand::AlterFamily {
        id: FAMILY,
        change: FamilyChange {
            window_max_ms: Some(10_000),
            ..FamilyChange::default()
        },
    };
    assert_eq!(state.ids(lower), Reply::Done);
    assert_eq!(state.ids(back), Reply::Done);
    let far = rejected(state.renew(0, 1));
    assert_eq!(far.cause, Cause::TooFarAhead, "{far:?}");
    assert_eq!(far.retry_after_ms, None);
    assert!(far.to_string().contains("release the worker"), "{far}");
}

#[test]
fn renewal_at_the_end_of_the_layout_is_exhausted() {
    let mut state = cluster_of(spec("0:1,time:20,worker:1,seq:12"));
    granted(state.acquire(1, "a", None));
    let end = 1 << 20;
    state.at(end - 5_000);
    assert_eq!(granted(state.renew(0, 1)).3, end);
    assert_eq!(rejected(state.renew(0, 1)).cause, Cause::TimeExhausted);
}

#[test]
fn store_time_ends_with_the_year_9999() {
    let mut state = cluster_of(snowflake());
    let last = 253_402_300_799_999;
    state.at(last + 1);
    assert_eq!(state.store_time().high_ms, 50_000);
    let set = |now_ms| IdsCommand::SetTime { now_ms, resets: 0 };
    let reply = state.ids(set(last + 1));
    assert!(
        matches!(reply, Reply::Rejected(CommandRejection::Invalid(_))),
        "{reply:?}"
    );
    assert_eq!(state.ids(set(last)), Reply::Done);
}

/// A sticky name gets the worker with the latest end, free or held; the free ones that it had count
/// for nothing.
#[test]
fn workers_of_a_name_are_counted_and_kept() {
    let sticky = FamilySpec {
        sticky: true,
        ..snowflake()
    };
    let mut state = cluster_of(sticky);
    for worker in 0..40 {
        let nonce = 1 + u128::from(worker);
        granted(state.acquire(nonce, "a", Some(worker)));
        let used = 50_000 + u64::from(worker);
        assert_eq!(state.release(worker, 1, used), Reply::Done);
    }
    // The last one that it had, not one that passes first.
    assert_eq!(granted(state.acquire(100, "a", None)).0, 39);
    for worker in 0..15 {
        granted(state.acquire(101 + u128::from(worker), "a", Some(worker)));
    }
    assert_eq!(
        rejected(state.acquire(200, "a", Some(30))).cause,
        Cause::TooManyWorkers
    );
    assert_eq!(granted(state.acquire(201, "b", None)).0, 40);
}
