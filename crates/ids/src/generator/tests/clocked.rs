//! Policies for a clock that is behind, and what a restart keeps.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::super::{
    Ahead, ClockPolicy, Clocked, Hold, NoId, Progress, Refuse, RollbackBits, Run, SequenceStart,
    Timelines, Wait,
};
use super::{SeenPositions, grid, sequence_start};

#[derive(Clone, Debug)]
enum Step {
    Take {
        count: u32,
        tick: u64,
    },
    Restart,
    /// A restart of a process that kept its progress some takes ago, with a reserve.
    Kill,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let anywhere = (1..9u32, 0..60u64).prop_map(|(count, tick)| Step::Take { count, tick });
    let far = (1..9u32, any::<u64>()).prop_map(|(count, tick)| Step::Take { count, tick });
    let step = prop_oneof![
        40 => anywhere, 1 => far, 2 => Just(Step::Restart), 2 => Just(Step::Kill),
    ];
    prop::collection::vec(step, 1..200)
}

/// How far in front of its ids a process keeps its progress.
const RESERVE: u64 = 5;

/// Plays steps on a generator; fails if an id repeats or a tick is too far in front of the clock.
fn play<P: ClockPolicy + Copy>(
    policy: P,
    ahead: u64,
    (capacity, start): (u64, SequenceStart),
    steps: &[Step],
) {
    let grid = grid(7, capacity, 2);
    let mut generator = Clocked::new(grid, start, policy, 0);
    let mut seen = SeenPositions::default();
    let mut kept = generator.progress().reserve(RESERVE);
    let mut last = [0u64; 4];
    for step in steps {
        match *step {
            Step::Take { count, tick } => {
                let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
                let Ok(run) = generator.take(count, || tick) else {
                    continue;
                };
                let end = grid.tick_of(run.first + run.count - 1);
                let held = last[usize::from(run.lane)];
                assert!(grid.tick_of(run.first) >= tick, "older than the clock");
                assert!(end <= tick.saturating_add(ahead).max(held));
                if end >= kept.next_ticks[usize::from(run.lane)] {
                    // The process keeps its progress before it uses the id.
                    kept = generator.progress().reserve(end + RESERVE);
                }
                last[usize::from(run.lane)] = end.max(held);
                seen.add(run);
            }
            Step::Restart => {
                let progress = generator.progress();
                generator = Clocked::resume(grid, start, policy, &progress);
                assert_eq!(generator.progress(), progress);
                last = progress.next_ticks[..4]
                    .try_into()
                    .map_or(last, |next: [u64; 4]| {
                        next.map(|tick| tick.saturating_sub(1))
                    });
            }
            Step::Kill => {
                generator = Clocked::resume(grid, start, policy, &kept);
                last = kept.next_ticks[..4]
                    .try_into()
                    .map_or(last, |next: [u64; 4]| {
                        next.map(|tick| tick.saturating_sub(1))
                    });
                kept = generator.progress().reserve(0);
            }
        }
    }
}

proptest! {
    #[test]
    fn ids_of_any_clock_never_repeat(
        steps in steps(),
        tick in (1..9u64, sequence_start()),
    ) {
        play(Refuse, 0, tick, &steps);
        play(Wait { max_ticks: 5, factor: 2 }, 0, tick, &steps);
        play(Hold, 0, tick, &steps);
        play(Ahead { max_ticks: 6 }, 6, tick, &steps);
        play(RollbackBits { wait_ticks: 2 }, 0, tick, &steps);
        play(Timelines { wait_ticks: 2 }, 0, tick, &steps);
    }

    /// A process that kept only its last tick repeats nothing either.
    #[test]
    fn ids_after_resume_from_the_last_tick_never_repeat(
        before in prop::collection::vec(0..60u64, 1..60),
        after in prop::collection::vec(0..60u64, 1..60),
    ) {
        let grid = grid(7, 3, 2);
        let policy = Timelines { wait_ticks: 0 };
        let mut seen = SeenPositions::default();
        let mut last_tick = 0;
        let first = Clocked::new(grid, SequenceStart::Carry, policy, 3);
        for tick in before {
            if let Ok(run) = first.take(NonZeroU32::MIN, || tick) {
                last_tick = last_tick.max(grid.tick_of(run.first));
                seen.add(run);
            }
        }
        let progress = Progress::default().reserve(last_tick + 1);
        let second = Clocked::resume(grid, SequenceStart::Carry, policy, &progress);
        for tick in after {
            if let Ok(run) = second.take(NonZeroU32::MIN, || tick) {
                seen.add(run);
            }
        }
    }
}

/// Without progress a restart with a clock set back repeats ids: what the documentation warns of.
#[test]
fn restart_without_progress_repeats_an_id() {
    let take = || -> Option<Run> {
        let generator = Clocked::new(grid(20, 4, 0), SequenceStart::Zero, Refuse, 0);
        generator.take(NonZeroU32::MIN, || 9).ok()
    };
    assert_eq!(take(), take());
}

#[test]
fn reserved_progress_keeps_its_lane_and_later_ticks() {
    let progress = Progress {
        lane: 2,
        next_ticks: [50, 10, 7, 0, 0, 0, 0, 0],
    };
    let expected = Progress {
        lane: 2,
        next_ticks: [50, 20, 20, 20, 20, 20, 20, 20],
    };
    assert_eq!(progress.reserve(20), expected);
}

/// Progress beyond the last tick, also of a layout that uses all bits of the word: an error, in
/// each lane, and the same progress again.
#[test]
fn resume_after_the_last_tick_is_rejected() {
    for (time_bits, capacity, lane_bits) in [(51, 4_096, 0), (63, 1, 0), (48, 4_096, 3), (7, 3, 2)]
    {
        let grid = grid(time_bits, capacity, lane_bits);
        for lane in 0..8 {
            let next_ticks = [u64::MAX; 8];
            let progress = Progress { lane, next_ticks };
            let policy = Ahead { max_ticks: 9 };
            let generator = Clocked::resume(grid, SequenceStart::Zero, policy, &progress);
            for tick in [0, (1 << time_bits) - 1, u64::MAX] {
                let taken = generator.take(NonZeroU32::MIN, || tick);
                assert_eq!(taken, Err(NoId::EndOfTime), "at tick {tick} of {grid:?}");
            }
            let lane = usize::from(generator.progress().lane);
            assert!(lane < grid.lanes());
        }
    }
}
