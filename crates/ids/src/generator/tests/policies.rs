//! What each policy does when the clock is behind or a tick is full.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;

use super::super::{
    Ahead, ClockPolicy, Clocked, Hold, LaneChoice, NoId, Progress, Refuse, Rejection, RollbackBits,
    SequenceStart, TickClock, TickGrid, Timelines, Wait,
};
use super::grid;

const ONE: NonZeroU32 = NonZeroU32::MIN;

/// A clock that shows what a test sets, and advances while a caller waits.
#[derive(Default)]
struct MadeUpClock {
    tick: Cell<u64>,
    waits: RefCell<Vec<u64>>,
    /// What it advances by for each tick waited; 0 for a clock that is stopped.
    rate: Cell<u64>,
}

impl TickClock for MadeUpClock {
    fn tick(&self) -> u64 {
        self.tick.get()
    }

    fn wait(&self, ticks: u64) -> bool {
        self.waits.borrow_mut().push(ticks);
        self.tick.set(self.tick.get() + ticks * self.rate.get());
        self.waits.borrow().len() < 10
    }
}

/// Makes a generator of four ids a tick that has given one at tick 100.
fn at_100<P: ClockPolicy>(policy: P, lane_bits: u32) -> Clocked<P> {
    let generator = Clocked::new(grid(20, 4, lane_bits), SequenceStart::Zero, policy, 0);
    assert_eq!(take_at(&generator, 100), Ok((0, 100, 0)));
    generator
}

/// Takes one id; returns its lane, tick and sequence.
fn take_at<P: ClockPolicy>(generator: &Clocked<P>, tick: u64) -> Result<(u8, u64, u64), NoId> {
    let run = generator.take(ONE, || tick)?;
    Ok((run.lane, run.first / 4, run.first % 4))
}

/// Returns the error of a policy that does not wait.
fn moved_back(behind_ticks: u64) -> NoId {
    NoId::MovedBack {
        behind_ticks,
        wait_ticks: 0,
    }
}

fn full_wait<T>(taken: Result<T, NoId>) -> Option<u64> {
    match taken {
        Err(NoId::Full { wait_ticks }) => Some(wait_ticks),
        _ => None,
    }
}

/// Twitter: behind is an error with the distance, a full tick waits for the next, a new one begins
/// at sequence 0.
#[test]
fn a7_refuse_rejects_a_clock_that_is_behind() {
    let generator = at_100(Refuse, 0);
    let error = take_at(&generator, 88);
    assert_eq!(error, Err(moved_back(12)));
    let text = error.map_err(|error| error.to_string());
    assert!(text.is_err_and(|text| text.starts_with("clock moved back by 12 ticks: ")));
    for sequence in 1..4 {
        assert_eq!(take_at(&generator, 100), Ok((0, 100, sequence)));
    }
    assert_eq!(full_wait(take_at(&generator, 100)), Some(1));
    let error = take_at(&generator, 99);
    assert_eq!(error, Err(moved_back(1)));
    assert_eq!(take_at(&generator, 101), Ok((0, 101, 0)));
}

/// UidGenerator's default generator is the same with ticks of a second: a full second waits.
#[test]
fn e18_refuse_waits_for_the_next_second() {
    let generator = at_100(Refuse, 0);
    let clock = MadeUpClock::default();
    clock.tick.set(100);
    clock.rate.set(1);
    let five = ONE.saturating_add(4);
    assert_eq!(
        generator.take_waiting(five, &clock).map(|run| run.count),
        Ok(3)
    );
    assert_eq!(
        generator.take_waiting(ONE, &clock).map(|run| run.first),
        Ok(404)
    );
    assert_eq!(*clock.waits.borrow(), [1]);
}

/// Leaf: behind by at most 5 ms waits twice the distance, once; more is an error.
#[test]
fn e16_wait_waits_twice_the_distance_then_rejects() {
    let policy = Wait {
        max_ticks: 5,
        factor: 2,
    };
    let generator = at_100(policy, 0);
    let clock = MadeUpClock::default();
    clock.tick.set(96);
    clock.rate.set(1);
    assert_eq!(
        generator.take_waiting(ONE, &clock).map(|run| run.first),
        Ok(416)
    );
    assert_eq!(*clock.waits.borrow(), [8]);
    let error = take_at(&generator, 98);
    assert_eq!(error, Err(moved_back(6)));
    let behind = NoId::MovedBack {
        behind_ticks: 5,
        wait_ticks: 10,
    };
    assert_eq!(take_at(&generator, 99), Err(behind));

    let stopped = MadeUpClock::default();
    stopped.tick.set(100);
    let error = generator.take_waiting(ONE, &stopped);
    assert_eq!(error, Err(moved_back(4)));
    assert_eq!(*stopped.waits.borrow(), [8]);
}

/// sonyflake: the last tick continues until it is full.
#[test]
fn hold_continues_in_the_last_tick_until_it_is_full() {
    let generator = at_100(Hold, 0);
    for sequence in 1..4 {
        assert_eq!(take_at(&generator, 7), Ok((0, 100, sequence)));
    }
    assert_eq!(full_wait(take_at(&generator, 95)), Some(6));
    assert_eq!(full_wait(take_at(&generator, 100)), Some(1));
    assert_eq!(take_at(&generator, 101), Ok((0, 101, 0)));
}

/// A full tick says how long to wait, not less: a clock that advances as the caller waits is waited
/// for once.
#[test]
fn full_tick_of_each_policy_is_waited_for_once() {
    fn check<P: ClockPolicy>(policy: P, behind: u64) {
        let generator = at_100(policy, 1);
        let clock = MadeUpClock::default();
        clock.rate.set(1);
        clock.tick.set(100 - behind);
        let all = ONE.saturating_add(1_000);
        while generator.take(all, || clock.tick.get()).is_ok() {}
        let run = generator.take_waiting(ONE, &clock);
        assert!(run.is_ok());
        assert_eq!(clock.waits.borrow().len(), 1, "{:?}", clock.waits);
        let last = generator.progress().next_ticks[0] - 1;
        assert!(last >= clock.tick.get(), "waited too long");
    }
    for behind in [0, 1, 90] {
        check(Hold, behind);
        check(Ahead { max_ticks: 2 }, behind);
    }
    check(Refuse, 0);
    check(RollbackBits { wait_ticks: 0 }, 0);
    check(Timelines { wait_ticks: 0 }, 0);
}

/// UidGenerator's cached generator borrows future ticks, here with a bound.
#[test]
fn e19_ahead_borrows_ticks_up_to_its_bound() {
    let generator = at_100(Ahead { max_ticks: 2 }, 0);
    for position in 401..412 {
        let taken = take_at(&generator, 100);
        assert_eq!(taken, Ok((0, position / 4, position % 4)));
    }
    assert_eq!(full_wait(take_at(&generator, 100)), Some(1));
    assert_eq!(full_wait(take_at(&generator, 90)), Some(11));
    assert_eq!(take_at(&generator, 101), Ok((0, 103, 0)));
}

/// Rollback bits: one lane more each time, 2 bits remember three times, then an error.
#[test]
fn e11_rollback_bits_remember_three_times() {
    let generator = at_100(RollbackBits { wait_ticks: 5 }, 2);
    let behind = NoId::MovedBack {
        behind_ticks: 5,
        wait_ticks: 5,
    };
    assert_eq!(take_at(&generator, 95), Err(behind));
    assert_eq!(take_at(&generator, 94), Ok((1, 94, 0)));
    assert_eq!(take_at(&generator, 80), Ok((2, 80, 0)));
    assert_eq!(take_at(&generator, 200), Ok((2, 200, 0)));
    assert_eq!(take_at(&generator, 80), Ok((3, 80, 0)));
    let error = moved_back(10);
    assert_eq!(take_at(&generator, 70), Err(error));
    assert_eq!(take_at(&generator, 80), Ok((3, 80, 1)));
}

/// A lane that is less far lies above the next one.
#[test]
fn e11_rollback_bits_continue_in_the_next_lane_above() {
    let progress = Progress {
        lane: 0,
        next_ticks: [200, 120, 50, 150, 0, 0, 0, 0],
    };
    let policy = RollbackBits { wait_ticks: 0 };
    let generator = Clocked::resume(grid(20, 4, 2), SequenceStart::Zero, policy, &progress);
    for (reading, lane) in [(160, 1), (155, 2), (151, 3)] {
        assert_eq!(take_at(&generator, reading), Ok((lane, reading, 0)));
    }
}

/// Schedule: a caller's own policy changes the lane at a reading past the end of time. The position
/// there must not reach into the bits of the lane.
#[test]
fn change_of_the_lane_past_the_end_of_time_repeats_nothing() {
    struct OtherLane;
    impl ClockPolicy for OtherLane {
        fn reach(&self, now: u64, _: u64, _: bool) -> Result<u64, Rejection> {
            match now < 1 << 50 {
                true => Ok(now),
                false => Err(Rejection {
                    error: moved_back(0),
                    lanes: Some(LaneChoice::Other),
                }),
            }
        }
    }
    let grid = TickGrid::new(50, 4_096, 1).unwrap();
    let generator = Clocked::new(grid, SequenceStart::Zero, OtherLane, 1);
    let first = generator.take(ONE, || 5).unwrap();
    let mut readings = [u64::MAX, u64::MAX].into_iter();
    let second = generator.take(ONE, || readings.next().unwrap_or(5));
    assert!(second.is_err(), "{first:?}, {second:?}");
}

/// A clock that is still behind after a wait has moved back by much: another lane continues.
#[test]
fn e11_e20_clock_that_is_stopped_is_waited_for_once() {
    fn check<P: ClockPolicy>(policy: P) {
        let generator = at_100(policy, 1);
        let stopped = MadeUpClock::default();
        stopped.tick.set(97);
        let run = generator.take_waiting(ONE, &stopped);
        assert_eq!(run.map(|run| (run.lane, run.first)), Ok((1, 388)));
        assert_eq!(*stopped.waits.borrow(), [3]);
    }
    check(RollbackBits { wait_ticks: 5 });
    check(Timelines { wait_ticks: 5 });
}

/// Timelines: a small step waits; a large one takes the timeline that is the least far and below
/// the reading; none is an error.
#[test]
fn e20_timelines_are_used_again() {
    let generator = at_100(Timelines { wait_ticks: 5 }, 1);
    let behind = NoId::MovedBack {
        behind_ticks: 3,
        wait_ticks: 3,
    };
    assert_eq!(take_at(&generator, 97), Err(behind));
    assert_eq!(take_at(&generator, 50), Ok((1, 50, 0)));
    assert_eq!(take_at(&generator, 200), Ok((1, 200, 0)));
    assert_eq!(take_at(&generator, 150), Ok((0, 150, 0)));
    let error = moved_back(80);
    assert_eq!(take_at(&generator, 70), Err(error));
    assert_eq!(take_at(&generator, 201), Ok((0, 201, 0)));
}

/// Of several timelines that are below the reading the one with the least progress is chosen; one
/// that has used all of the tick before the reading is below it.
#[test]
fn e20_timeline_with_the_least_progress_is_chosen() {
    let generator = at_100(Timelines { wait_ticks: 0 }, 2);
    for (tick, lane) in [(40, 1), (30, 2), (20, 3), (200, 3), (110, 2), (60, 1)] {
        assert_eq!(take_at(&generator, tick), Ok((lane, tick, 0)));
    }
    // Lanes 0, 2 and 3 are at ticks 100, 110 and 200.
    assert_eq!(take_at(&generator, 400), Ok((1, 400, 0)));
    assert_eq!(take_at(&generator, 300), Ok((0, 300, 0)));
    for sequence in 1..4 {
        assert_eq!(take_at(&generator, 300), Ok((0, 300, sequence)));
    }
    assert_eq!(take_at(&generator, 290), Ok((2, 290, 0)));
    assert_eq!(take_at(&generator, 500), Ok((2, 500, 0)));
    assert_eq!(take_at(&generator, 301), Ok((3, 301, 0)));
    assert_eq!(take_at(&generator, 700), Ok((3, 700, 0)));
    assert_eq!(take_at(&generator, 600), Ok((0, 600, 0)));
    let narrow = at_100(Timelines { wait_ticks: 0 }, 1);
    for sequence in 1..4 {
        assert_eq!(take_at(&narrow, 100), Ok((0, 100, sequence)));
    }
    assert_eq!(take_at(&narrow, 50), Ok((1, 50, 0)));
    assert_eq!(take_at(&narrow, 120), Ok((1, 120, 0)));
    let error = take_at(&narrow, 100);
    assert!(
        matches!(error, Err(NoId::MovedBack { wait_ticks: 0, .. })),
        "{error:?}"
    );
    assert_eq!(take_at(&narrow, 101), Ok((0, 101, 0)));
}

#[test]
fn e20_first_timeline_is_the_callers_choice() {
    let policy = Timelines { wait_ticks: 0 };
    let generator = Clocked::new(grid(20, 4, 2), SequenceStart::Zero, policy, 6);
    assert_eq!(take_at(&generator, 9), Ok((2, 9, 0)));
}

/// Irregular first numbers of a tick, as Leaf has them: below 100, and not all the same.
#[test]
fn a4_random_start_spreads_over_its_numbers() {
    let start = SequenceStart::Random { below: 100, key: 7 };
    let generator = Clocked::new(grid(41, 4_096, 0), start, Refuse, 0);
    let mut shards = [0; 4];
    for tick in 1..=4_000 {
        let first = generator
            .take(ONE, || tick)
            .map_or(u64::MAX, |run| run.first);
        assert!(first % 4_096 < 100);
        shards[(first % 4) as usize] += 1;
    }
    assert!(
        shards.iter().all(|count| (900..1_100).contains(count)),
        "{shards:?}"
    );
}

/// Bounds that are 0 or above the ids of a tick: every tick begins within itself.
#[test]
fn random_start_stays_in_its_tick() {
    let firsts = |below, key| -> Vec<u64> {
        let start = SequenceStart::Random { below, key };
        let generator = Clocked::new(grid(20, 8, 0), start, Refuse, 0);
        let take = |tick| generator.take(ONE, || tick).map(|run| run.first);
        let take = |tick| take(tick).map_or(u64::MAX, |first| first.wrapping_sub(tick * 8));
        (1..100).map(take).collect()
    };
    assert_eq!(firsts(0, 7), [0; 99]);
    assert_eq!(firsts(1, 7), [0; 99]);
    let all = firsts(u32::MAX, 7);
    assert!(all.iter().all(|first| *first < 8), "{all:?}");
    assert_eq!(firsts(8, 7), all);
    assert_ne!(firsts(8, 6), all, "workers have the same numbers");
}

#[test]
fn carry_start_continues_from_the_last_number_below_half() {
    let generator = Clocked::new(grid(20, 8, 0), SequenceStart::Carry, Refuse, 0);
    let sequences: Vec<u64> = (1..9)
        .map(|tick| generator.take(ONE, || tick).map_or(99, |run| run.first % 8))
        .collect();
    assert_eq!(sequences, [0, 1, 2, 3, 4, 0, 1, 2]);
}
