//! The generator's protocols under loom: every schedule, up to a bound of preemptions.
//!
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p seqsvr-ids --test
//! loom_generator --release`
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroU32;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use seqsvr_ids::generator::{
    Ahead, ClockPolicy, Clocked, Hold, NoId, Refuse, RollbackBits, Run, SequenceStart, TickGrid,
    Timelines, WorkerGenerator,
};

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// Runs a test under every schedule, up to a bound of preemptions.
fn check_schedules(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(test);
}

fn grid(capacity: u64, lane_bits: u32) -> TickGrid {
    TickGrid::new(20, capacity, lane_bits).unwrap()
}

/// Makes a generator of ticks of two ids each.
fn worker_generator(until: u64) -> Arc<WorkerGenerator> {
    let start = SequenceStart::Zero;
    Arc::new(WorkerGenerator::new(grid(2, 0), start, 1, 0, until))
}

fn clocked<P: ClockPolicy + 'static>(policy: P, lane_bits: u32) -> Arc<Clocked<P>> {
    let start = SequenceStart::Zero;
    Arc::new(Clocked::new(grid(2, lane_bits), start, policy, 0))
}

fn positions_of(runs: impl IntoIterator<Item = Run>) -> Vec<(u8, u64)> {
    runs.into_iter()
        .flat_map(|run| (run.first..run.first + run.count).map(move |at| (run.lane, at)))
        .collect()
}

fn assert_no_repeat(mut positions: Vec<(u8, u64)>) {
    positions.sort_unstable();
    assert!(
        positions.is_sorted_by(|a, b| a < b),
        "a position was repeated: {positions:?}"
    );
}

/// Returns what one thread took at a constant tick, each position greater than the one before.
fn take_all(generator: &WorkerGenerator, count: u32, times: usize) -> Vec<(u8, u64)> {
    let count = NonZeroU32::new(count).unwrap();
    let runs = (0..times).filter_map(|_| generator.take(count, 0, 9).ok());
    let positions = positions_of(runs);
    assert!(positions.is_sorted_by(|a, b| a < b), "went back");
    positions
}

/// Three callers request more than the grant has: one that adds after the others have used it up
/// discards what it got.
#[test]
fn position_never_repeats_nor_passes_the_grant() {
    check_schedules(|| {
        let generator = worker_generator(2);
        take_all(&generator, 1, 1);
        let (a, b) = (generator.clone(), generator.clone());
        let a = thread::spawn(move || take_all(&a, 2, 1));
        let b = thread::spawn(move || take_all(&b, 1, 2));
        let mut all = take_all(&generator, 1, 1);
        all.extend(a.join().unwrap());
        all.extend(b.join().unwrap());
        assert!(all.iter().all(|(_, position)| (1..4).contains(position)));
        assert_no_repeat(all);
        assert_eq!(generator.take(ONE, 2, 0), Err(NoId::Limit));
    });
}

/// Everything taken lies below the tick that the seal reported, and nothing is taken afterwards,
/// also if the grant is widened at the same time and its new ticks are used.
#[test]
fn sealed_generator_hands_out_nothing_at_or_above_its_report() {
    check_schedules(|| {
        let generator = worker_generator(2);
        take_all(&generator, 1, 1);
        let (a, b) = (generator.clone(), generator.clone());
        let a = thread::spawn(move || take_all(&a, 1, 2));
        let b = thread::spawn(move || {
            b.widen(1, 4);
            take_all(&b, 3, 1)
        });
        let used = generator.seal();
        assert!(generator.take(ONE, 0, 9).is_err());
        let mut all = a.join().unwrap();
        all.extend(b.join().unwrap());
        assert!(
            all.iter().all(|(_, position)| *position < used * 2),
            "used at or above tick {used}: {all:?}"
        );
        assert_no_repeat(all);
    });
}

/// A caller who adds beyond the limit before the seal does not use what it got, though the grant is
/// widened before it looks again: the report says that those ticks are not used.
#[test]
fn positions_added_beyond_the_limit_stay_unused_when_it_is_widened() {
    check_schedules(|| {
        let generator = worker_generator(1);
        take_all(&generator, 1, 1);
        let (a, b) = (generator.clone(), generator.clone());
        let a = thread::spawn(move || take_all(&a, 1, 2));
        let b = thread::spawn(move || b.widen(1, 2));
        let used = generator.seal();
        let all = a.join().unwrap();
        assert!(b.join().unwrap());
        assert!(
            all.iter().all(|(_, position)| *position < used * 2),
            "used at or above tick {used}: {all:?}"
        );
    });
}

/// Ids above the old limit are taken only after the wider one was durable; one of another epoch
/// widens nothing.
#[test]
fn generator_widened_while_ids_are_taken_uses_only_durable_ticks() {
    check_schedules(|| {
        let generator = worker_generator(1);
        let durable = Arc::new(AtomicBool::new(false));
        let (other, raised) = (generator.clone(), durable.clone());
        let widen = thread::spawn(move || {
            raised.store(true, Ordering::Release);
            assert!(!other.widen(2, 7));
            assert!(other.widen(1, 2));
            assert!(other.widen(1, 1));
        });
        let taken = take_all(&generator, 1, 3);
        assert!(taken.len() == 2 || durable.load(Ordering::Acquire));
        widen.join().unwrap();
        let all = [taken, take_all(&generator, 1, 4)].concat();
        // An addition at the limit skips a position.
        let all = positions_only(&all);
        assert!(all == [0, 1, 2, 3] || all == [0, 1, 3], "{all:?}");
    });
}

fn positions_only(positions: &[(u8, u64)]) -> Vec<u64> {
    positions.iter().map(|(_, position)| *position).collect()
}

/// A caller with a later clock lifts the position while others add to it.
#[test]
fn lift_to_the_present_repeats_nothing() {
    check_schedules(|| {
        let generator = worker_generator(9);
        take_all(&generator, 1, 1);
        let (a, b) = (generator.clone(), generator.clone());
        let a = thread::spawn(move || take_all(&a, 1, 2));
        let b = thread::spawn(move || positions_of([b.take(ONE, 1, 9).unwrap()]));
        let mut all = positions_of([generator.take(ONE, 2, 9).unwrap()]);
        assert!(all[0].1 >= 4, "older than the clock");
        all.extend(a.join().unwrap());
        all.extend(b.join().unwrap());
        assert_no_repeat(all);
    });
}

/// Callers that read one clock, which never goes back: none is rejected, though they are paused
/// between its reading and their take.
#[test]
fn refuse_with_a_rising_clock_rejects_no_caller() {
    check_schedules(|| {
        let generator = clocked(Refuse, 0);
        let clock = Arc::new(AtomicU64::new(1));
        let (other, other_clock) = (generator.clone(), clock.clone());
        let a = thread::spawn(move || {
            other_clock.fetch_add(1, Ordering::AcqRel);
            other.take(ONE, || other_clock.load(Ordering::Acquire))
        });
        let here = generator.take(ONE, || clock.load(Ordering::Acquire));
        assert_no_repeat(positions_of([here.unwrap(), a.join().unwrap().unwrap()]));
    });
}

/// Three callers at one tick of two ids: no id of a tick in front of the clock.
#[test]
fn hold_never_stamps_a_tick_in_front_of_the_clock() {
    check_schedules(|| {
        let generator = clocked(Hold, 0);
        let take = |generator: Arc<Clocked<Hold>>| move || generator.take(ONE, || 3).ok();
        let a = thread::spawn(take(generator.clone()));
        let b = thread::spawn(take(generator.clone()));
        let here = take(generator.clone())();
        let runs = [here, a.join().unwrap(), b.join().unwrap()];
        let mut all = positions_of(runs.into_iter().flatten());
        all.sort_unstable();
        assert_eq!(positions_only(&all), [6, 7]);
    });
}

/// Two callers add beyond the bound of `Ahead` together.
#[test]
fn ahead_never_passes_its_bound() {
    check_schedules(|| {
        let generator = clocked(Ahead { max_ticks: 1 }, 0);
        let first = generator.take(ONE, || 3).unwrap();
        let take = |generator: Arc<Clocked<Ahead>>| {
            move || {
                let runs: Vec<_> = (0..2)
                    .filter_map(|_| generator.take(ONE, || 3).ok())
                    .collect();
                runs
            }
        };
        let a = thread::spawn(take(generator.clone()));
        let mut all = take(generator.clone())();
        all.extend(a.join().unwrap());
        all.push(first);
        let all = positions_of(all);
        assert!(all.iter().all(|(_, position)| (6..10).contains(position)));
        assert_no_repeat(all);
    });
}

/// The clock is set back while callers take ids; then it is set back below the next lane as well.
fn check_lanes<P: ClockPolicy + Copy + Send + Sync + 'static>(policy: P, lane_bits: u32) {
    check_schedules(move || {
        let generator = clocked(policy, lane_bits);
        let mut all = positions_of([generator.take(ONE, || 5).unwrap()]);
        let clock = Arc::new(AtomicU64::new(5));
        let (other, other_clock) = (generator.clone(), clock.clone());
        let a = thread::spawn(move || {
            let runs =
                (0..2).filter_map(|_| other.take(ONE, || other_clock.load(Ordering::Acquire)).ok());
            positions_of(runs)
        });
        clock.store(2, Ordering::Release);
        let read = || clock.load(Ordering::Acquire);
        all.extend(positions_of(generator.take(ONE, read).ok()));
        clock.store(6, Ordering::Release);
        all.extend(positions_of(generator.take(ONE, read).ok()));
        clock.store(3, Ordering::Release);
        all.extend(positions_of(generator.take(ONE, read).ok()));
        all.extend(a.join().unwrap());
        let progress = generator.progress();
        for (lane, position) in &all {
            assert!(position / 2 < progress.next_ticks[usize::from(*lane)]);
        }
        assert_no_repeat(all);
    });
}

#[test]
fn rollback_bits_repeat_nothing_when_the_clock_is_set_back() {
    check_lanes(RollbackBits { wait_ticks: 0 }, 1);
}

#[test]
fn timelines_repeat_nothing_when_the_clock_is_set_back() {
    check_lanes(Timelines { wait_ticks: 0 }, 1);
}

/// Two callers find the clock set back at the same time: together they use up one lane, not two.
#[test]
fn callers_at_one_step_back_use_up_one_lane() {
    check_schedules(|| {
        let generator = clocked(RollbackBits { wait_ticks: 0 }, 2);
        generator.take(ONE, || 5).unwrap();
        let other = generator.clone();
        let a = thread::spawn(move || other.take(ONE, || 2).unwrap());
        let here = generator.take(ONE, || 2).unwrap();
        let mut all = positions_of([here, a.join().unwrap()]);
        all.sort_unstable();
        assert_eq!(all, [(1, 4), (1, 5)]);
    });
}

/// A caller with a later reading takes ids of a lane while another one puts it aside: it continues
/// above them.
#[test]
fn lane_put_aside_while_ids_are_taken_continues_above_them() {
    check_schedules(|| {
        let generator = clocked(Timelines { wait_ticks: 0 }, 1);
        let first = generator.take(ONE, || 5).ok();
        let other = generator.clone();
        let a = thread::spawn(move || other.take(ONE, || 7).ok());
        let mut runs: Vec<_> = [2, 9, 7].map(|now| generator.take(ONE, || now).ok()).into();
        runs.extend([first, a.join().unwrap()]);
        assert_no_repeat(positions_of(runs.into_iter().flatten()));
    });
}
