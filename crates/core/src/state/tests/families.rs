//! Families and grants: each schedule of `state/families/`, and what its rule makes of it.

use super::*;
use crate::family::{
    AcquireWorker, FAMILIES_MAX, FamilyChange, FamilyLimits, FamilySpec, IdsCommand, IdsRejection,
    IdsRejectionCause as Cause, WorkerGrant,
};
use crate::ids::{FamilyId, WorkerEpoch, WorkerId, WorkerKey};
use crate::layout::TickScale;
use crate::state::restore::{RestoreError, RestoreMargins};

mod edges;

const FAMILY: FamilyId = FamilyId(1);

/// Returns a cluster of level 3 at 50,000 ms, with a family of ticks of 1 ms, a window of 10 s, and
/// 1 s ahead.
fn cluster_of(spec: FamilySpec) -> State {
    let mut state = cluster();
    state.one(Command::SetLevel { level: 3 });
    let limits = FamilyLimits::DEFAULT;
    let made = state.ids(IdsCommand::CreateFamily { spec, limits });
    assert_eq!(made, Reply::Family(FAMILY));
    state.at(50_000);
    state
}

fn spec(layout: &str) -> FamilySpec {
    let scale = TickScale::new(0, 1).unwrap();
    FamilySpec::new("snowflake", layout.parse().unwrap(), scale)
}

fn snowflake() -> FamilySpec {
    spec("0:1,time:41,worker:10,seq:12")
}

impl State {
    fn ids(&mut self, command: IdsCommand) -> Reply {
        self.one(Command::Ids(command))
    }

    /// Advances store time.
    fn at(&mut self, now_ms: u64) {
        let resets = self.store_time().resets;
        self.ids(IdsCommand::AdvanceTime { now_ms, resets });
    }

    fn acquire(&mut self, nonce: u128, holder: &str, worker: Option<u32>) -> Reply {
        self.ids(IdsCommand::AcquireWorker(AcquireWorker {
            family: FAMILY,
            holder: holder.into(),
            nonce: Nonce(nonce),
            worker: worker.map(WorkerId),
            window_ms: 0,
        }))
    }

    /// Returns the nonce of the last acquisition of a worker.
    fn nonce_of(&self, worker: WorkerKey) -> Nonce {
        self.worker(worker).map_or(Nonce(1), |row| row.nonce)
    }

    fn renew(&mut self, worker: u32, epoch: u64) -> Reply {
        let (worker, epoch) = (worker_key(worker), WorkerEpoch(epoch));
        let nonce = self.nonce_of(worker);
        self.ids(IdsCommand::RenewWorker {
            worker,
            epoch,
            window_ms: 0,
            nonce,
        })
    }

    fn release(&mut self, worker: u32, epoch: u64, used: u64) -> Reply {
        let (worker, epoch) = (worker_key(worker), WorkerEpoch(epoch));
        let nonce = self.nonce_of(worker);
        self.ids(IdsCommand::ReleaseWorker {
            worker,
            epoch,
            used,
            nonce,
        })
    }
}

fn worker_key(worker: u32) -> WorkerKey {
    WorkerKey {
        family: FAMILY,
        worker: WorkerId(worker),
    }
}

/// Worker, epoch, first tick and end of a grant.
fn granted(reply: Reply) -> (u32, u64, u64, u64) {
    match reply {
        Reply::Grant(WorkerGrant {
            worker,
            epoch,
            from,
            until,
            ..
        }) => (worker.worker.0, epoch.0, from, until),
        other => panic!("no grant: {other:?}"),
    }
}

fn rejected(reply: Reply) -> IdsRejection {
    match reply {
        Reply::Rejected(CommandRejection::Ids(rejection)) => rejection,
        other => panic!("no rejection of ids: {other:?}"),
    }
}

fn is_stale(reply: Reply) -> bool {
    rejected(reply).cause == Cause::StaleWorker
}

/// Schedule: another caller mistakes its worker, or means harm, and releases A's as unused.
#[test]
fn only_the_holder_renews_and_releases_its_worker() {
    let mut state = cluster_of(snowflake());
    let (worker, epoch, from, _) = granted(state.acquire(7, "a", None));
    let (key, nonce) = (worker_key(worker), Nonce(8));
    let before = state.clone();
    let epoch = WorkerEpoch(epoch);
    assert!(is_stale(state.ids(IdsCommand::ReleaseWorker {
        worker: key,
        epoch,
        used: from,
        nonce,
    })));
    state.at(51_000);
    assert!(is_stale(state.ids(IdsCommand::RenewWorker {
        worker: key,
        epoch,
        window_ms: 0,
        nonce,
    })));
    assert_eq!(state.worker(key), before.worker(key));
}

/// Schedule: A is paused until C has its worker, and wakes.
#[test]
fn holders_share_no_tick() {
    let mut state = cluster_of(snowflake());
    assert_eq!(granted(state.acquire(1, "a", None)), (0, 1, 50_000, 60_000));
    state.at(55_000);
    assert_eq!(granted(state.renew(0, 1)), (0, 1, 50_000, 65_000));
    // A is paused. Worker 0 has not passed.
    state.at(60_000);
    assert_eq!(granted(state.acquire(2, "b", None)), (1, 1, 60_000, 70_000));
    state.at(66_000);
    assert_eq!(granted(state.acquire(3, "c", None)), (0, 2, 66_000, 76_000));
    // A wakes.
    assert!(is_stale(state.renew(0, 1)));
    assert!(is_stale(state.release(0, 1, 66_500)));
    assert_eq!(granted(state.acquire(4, "a", None)), (2, 1, 66_000, 76_000));
    assert_eq!(state.release(1, 1, 66_420), Reply::Done);
    state.at(66_500);
    assert_eq!(granted(state.acquire(5, "d", None)), (1, 3, 66_500, 76_500));
    // A retry, and a late duplicate of an acquisition that was released.
    assert_eq!(granted(state.acquire(5, "d", None)), (1, 3, 66_500, 76_500));
    assert!(is_stale(state.release(1, 1, 60_000)));
    assert_eq!(state.release(1, 3, 0), Reply::Done);
    assert!(is_stale(state.acquire(5, "d", None)));
    // What was released below its base begins at the base.
    assert_eq!(state.worker(worker_key(1)).unwrap().until(), 66_500);
}

/// Schedule: store time is set back while A holds a grant; the number is claimed for B.
#[test]
fn grant_begins_above_all_that_was_granted_at_any_time() {
    let mut state = cluster_of(snowflake());
    state.acquire(1, "a", Some(7));
    assert_eq!(state.release(7, 1, 59_000), Reply::Done);
    let back = IdsCommand::SetTime {
        now_ms: 58_500,
        resets: 0,
    };
    assert_eq!(state.ids(back.clone()), Reply::Done);
    let set = rejected(state.ids(back));
    assert_eq!(set.cause, Cause::TimeWasSet);
    assert!(set.to_string().contains("was set 1 times"), "{set}");
    // A reading from before the set-back.
    state.ids(IdsCommand::AdvanceTime {
        now_ms: 90_000,
        resets: 0,
    });
    assert_eq!(state.store_time().high_ms, 58_500);
    assert_eq!(
        granted(state.acquire(2, "b", Some(7))),
        (7, 3, 59_000, 69_000)
    );
    // A loop of claims goes no further than ahead and a window.
    assert_eq!(state.release(7, 3, 69_000), Reply::Done);
    let far = rejected(state.acquire(3, "c", Some(7)));
    assert_eq!(far.cause, Cause::TooFarAhead);
    assert_eq!(far.retry_after_ms, Some(9_500));
    let words =
        "of 1970-01-01T00:01:09.000Z and store time is 1970-01-01T00:00:58.500Z; retry in 10 s";
    assert!(far.to_string().ends_with(words), "{far}");
}

#[test]
fn holder_of_a_number_keeps_it_while_it_renews() {
    let mut state = cluster_of(spec("0:1,time:41,worker:1,seq:12"));
    state.acquire(1, "a", Some(0));
    state.acquire(2, "b", None);
    state.at(59_000);
    let full = rejected(state.acquire(3, "c", None));
    assert_eq!(full.retry_after_ms, Some(1_000), "{full}");
    assert!(
        full.to_string()
            .contains("all 2 workers of family \"snowflake\" are held"),
        "{full}"
    );
    let held = rejected(state.acquire(3, "c", Some(0)));
    assert!(
        held.to_string().contains("worker 0 is held by \"a\" until"),
        "{held}"
    );
    granted(state.renew(0, 1));
    state.at(60_000);
    assert_eq!(granted(state.acquire(3, "c", None)), (1, 2, 60_000, 70_000));
    // A number that was handed back is granted before it has passed.
    assert_eq!(state.release(0, 1, 61_000), Reply::Done);
    assert_eq!(granted(state.acquire(4, "d", None)), (0, 3, 61_000, 71_000));
}

#[test]
fn sticky_holder_gets_its_own_number_back() {
    let spec = FamilySpec {
        sticky: true,
        ..snowflake()
    };
    let mut state = cluster_of(spec);
    state.acquire(1, "a", None);
    state.acquire(2, "b", None);
    // Killed and started again: its grant is about to pass.
    let early = rejected(state.acquire(3, "a", None));
    assert_eq!(early.retry_after_ms, Some(9_000), "{early}");
    state.at(59_000);
    assert_eq!(granted(state.acquire(3, "a", None)), (0, 2, 60_000, 70_000));
    assert_eq!(state.release(0, 2, 60_001), Reply::Done);
    state.at(90_000);
    assert_eq!(
        granted(state.acquire(4, "c", None)).0,
        2,
        "a number of its own"
    );
    assert_eq!(granted(state.acquire(5, "a", None)).0, 0);
}

#[test]
fn number_of_a_family_that_reuses_none_is_granted_once() {
    let spec = FamilySpec {
        reuse_never: true,
        ..spec("0:1,time:41,worker:1,seq:12")
    };
    let mut state = cluster_of(spec);
    assert_eq!(granted(state.acquire(1, "a", None)).0, 0);
    assert_eq!(state.release(0, 1, 50_000), Reply::Done);
    assert_eq!(state.workers(FAMILY, WorkerId(0)).count(), 0);
    let mut state = State::from_rows(state.rows()).unwrap();
    assert_eq!(granted(state.acquire(2, "a", None)).0, 1);
    state.at(90_000);
    let none = rejected(state.acquire(3, "a", None));
    assert_eq!(none.retry_after_ms, None);
    assert!(none.to_string().contains("used once"), "{none}");
    assert_eq!(granted(state.renew(1, 1)).3, 100_000, "it is still held");
}

#[test]
fn raised_floor_ends_older_grants() {
    let mut state = cluster_of(snowflake());
    state.acquire(1, "a", None);
    let raise = |floor, force| IdsCommand::RaiseFamily {
        id: FAMILY,
        floor,
        force,
    };
    let far = rejected(state.ids(raise(51_001, false)));
    assert_eq!(far.cause, Cause::FloorTooFar, "{far}");
    assert_eq!(state.ids(raise(51_000, false)), Reply::Done);
    assert!(is_stale(state.renew(0, 1)));
    assert_eq!(granted(state.acquire(2, "a", None)), (1, 1, 51_000, 61_000));
    assert_eq!(state.ids(raise(80_000, true)), Reply::Done);
    assert_eq!(state.ids(raise(70_000, true)), Reply::Done);
    let wait = rejected(state.acquire(3, "a", None)).retry_after_ms;
    assert_eq!(wait, Some(29_000));
}

/// Schedule: all clocks were an hour ahead and are put right.
#[test]
fn lanes_continue_at_once_after_a_set_back() {
    let mut state = cluster_of(spec("0:1,time:39,lane:1,worker:0,seq:12"));
    let reply = state.acquire(2, "a", None);
    assert!(
        matches!(reply, Reply::Grant(WorkerGrant { lane: 0, .. })),
        "{reply:?}"
    );
    state.at(3_650_000);
    granted(state.renew(0, 1));
    let back = IdsCommand::SetTime {
        now_ms: 50_000,
        resets: 0,
    };
    assert_eq!(state.ids(back), Reply::Done);
    assert_eq!(rejected(state.renew(0, 1)).cause, Cause::TooFarAhead);
    assert_eq!(state.release(0, 1, 3_650_001), Reply::Done);
    let Reply::Grant(grant) = state.acquire(3, "a", None) else {
        panic!("the other lane is free");
    };
    assert_eq!((grant.lane, grant.from, grant.until), (1, 50_000, 60_000));
}

/// Schedule: store time is set back more often than a worker has lanes.
#[test]
fn lane_that_counts_a_set_back_never_returns() {
    let once = FamilySpec {
        lanes_once: true,
        ..spec("0:1,time:39,lane:1,worker:0,seq:12")
    };
    let mut state = cluster_of(once);
    let lane = |reply: Reply| match reply {
        Reply::Grant(grant) => grant.lane,
        other => panic!("no grant: {other:?}"),
    };
    assert_eq!(lane(state.acquire(1, "a", None)), 0);
    for (resets, epoch) in [(0, 1), (1, 3)] {
        assert_eq!(state.release(0, epoch, u64::MAX), Reply::Done);
        let now_ms = 40_000 - 20_000 * resets;
        assert_eq!(
            state.ids(IdsCommand::SetTime { now_ms, resets }),
            Reply::Done
        );
        if resets == 0 {
            assert_eq!(lane(state.acquire(2, "a", Some(0))), 1);
        }
    }
    let used_up = rejected(state.acquire(3, "a", Some(0)));
    assert_eq!(used_up.cause, Cause::TimeExhausted);
    assert_eq!(used_up.retry_after_ms, Some(29_000));
    let words = "worker 0 has used all of its 2 lanes";
    assert!(used_up.to_string().contains(words), "{used_up}");
    let none = rejected(state.acquire(3, "a", None));
    assert_eq!(none.retry_after_ms, Some(29_000), "{none}");
}

/// Schedule: worker 0 is granted further after the backup, and worker 1 for the first time. Neither
/// is known to the restored cluster beyond the backup.
#[test]
fn restored_cluster_grants_no_tick_again() {
    let mut old = cluster_of(snowflake());
    old.acquire(1, "a", None);
    let backup = old.for_backup();
    old.at(3_600_000);
    let until = granted(old.renew(0, 1)).3;
    assert_eq!(granted(old.acquire(2, "b", None)).3, until);
    let least = backup.least_margins();
    let margins = |ids_from_ms| RestoreMargins {
        ids_from_ms,
        ..least
    };
    let new = ClusterId(9);
    let least_ms = least.ids_from_ms.unwrap();
    assert_eq!(least_ms, 50_000 + 3_600_000 + 1_000 + 1_000);
    for too_early in [None, Some(least_ms - 1)] {
        let rejected = backup.restored(new, margins(too_early));
        assert_eq!(rejected, Err(RestoreError::IdsFromTooEarly { least_ms }));
    }
    let begins = |ids_from_ms: u64, worker| {
        let mut state = backup.restored(new, margins(Some(ids_from_ms))).unwrap();
        assert_eq!(State::from_rows(state.rows()).as_ref(), Some(&state));
        let row = state.worker(worker_key(0)).unwrap();
        assert!(!row.is_held && row.epoch > WorkerEpoch(1));
        assert!(is_stale(state.renew(0, 1)));
        state.at(ids_from_ms - 500);
        granted(state.acquire(3, "c", Some(worker))).2
    };
    // A later backup would make the least margin larger, so the exact one is above it here.
    old.at(3_700_000);
    let until = granted(old.renew(0, 1)).3.max(until);
    assert!(granted(old.renew(1, 1)).3 == until && until > least_ms);
    for worker in [0, 1] {
        assert_eq!(begins(until, worker), until);
        assert!(begins(until - 1, worker) < until, "one less repeats one");
    }
}

/// Schedule: a nonce is read from a backup, and the worker is released with it while its holder
/// uses its grant.
#[test]
fn backup_holds_no_nonce_of_a_holder() {
    let mut state = cluster_of(snowflake());
    granted(state.acquire(1, "a", None));
    granted(state.acquire(2, "b", None));
    let backup = state.for_backup();
    let mut nonces = backup
        .workers(FAMILY, WorkerId(0))
        .map(|(_, row)| row.nonce);
    assert_eq!([nonces.next(), nonces.next()], [Some(Nonce(0)); 2]);
    assert_eq!(State::from_rows(backup.rows()).as_ref(), Some(&backup));
}

/// Schedule: the longest window is lowered before the backup. A grant of the longer one is in it.
#[test]
fn lowered_window_lowers_the_least_margin_of_ids() {
    let mut old = cluster_of(snowflake());
    old.acquire(1, "a", None);
    let longest = IdsCommand::RenewWorker {
        worker: worker_key(0),
        epoch: WorkerEpoch(1),
        window_ms: 3_600_000,
        nonce: Nonce(1),
    };
    let until = granted(old.ids(longest)).3;
    let change = FamilyChange {
        window_max_ms: Some(60_000),
        ..FamilyChange::default()
    };
    old.ids(IdsCommand::AlterFamily { id: FAMILY, change });
    let least = old.least_margins();
    assert_eq!(least.ids_from_ms, Some(50_000 + 60_000 + 1_000 + 1_000));
    let mut new = old.restored(ClusterId(9), least).unwrap();
    new.at(until - 1);
    assert_eq!(granted(new.acquire(2, "b", Some(0))).2, until);
}

#[test]
fn families_need_format_level_3() {
    let mut state = cluster();
    state.one(Command::SetLevel { level: 2 });
    let create = |name: usize| IdsCommand::CreateFamily {
        spec: FamilySpec {
            name: format!("f{name}"),
            ..snowflake()
        },
        limits: FamilyLimits::DEFAULT,
    };
    let before = state.clone();
    let too_low = rejected(state.ids(create(0)));
    assert_eq!(too_low, IdsRejection::level_too_low(2));
    assert_eq!(state, before);
    state.one(Command::SetLevel { level: 3 });
    for name in 0..FAMILIES_MAX {
        let version = state.table_version();
        let id = Reply::Family(FamilyId(name as u32 + 1));
        assert_eq!(state.ids(create(name)), id);
        assert_eq!(state.ids(create(name)), id);
        assert_eq!(state.table_version(), version + 1);
        assert_eq!(state.delta_since(version).unwrap().families.len(), 1);
    }
    let too_many = rejected(state.ids(create(FAMILIES_MAX)));
    assert_eq!(too_many.cause, Cause::TooManyFamilies);
    let mut other = create(0);
    if let IdsCommand::CreateFamily { limits, .. } = &mut other {
        limits.frozen = true;
    }
    let exists = rejected(state.ids(other)).to_string();
    assert!(exists.contains("other settings (frozen):"), "{exists}");
}
