//! Generator of a worker within its grant.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::super::{NoId, SequenceStart, WorkerGenerator};
use super::{grid, sequence_start};

#[derive(Clone, Debug)]
enum Step {
    Take { count: u32, now: u64, ahead: u64 },
    Widen { epoch: u64, until: u64 },
    Seal,
}

fn step() -> impl Strategy<Value = Step> {
    let take = (1..40u32, 0..120u64, 0..5u64);
    let take = take.prop_map(|(count, now, ahead)| Step::Take { count, now, ahead });
    let widen = (6..8u64, 0..120u64).prop_map(|(epoch, until)| Step::Widen { epoch, until });
    prop_oneof![20 => take, 4 => widen, 1 => Just(Step::Seal)]
}

proptest! {
    /// For any readings of the clock and any grants: no position twice, each greater than the last
    /// one, none below the grant, at or above the limit, older than the clock or too far in front.
    #[test]
    fn positions_rise_within_grant_and_reach(
        steps in prop::collection::vec(step(), 1..120),
        capacity in 1..20u64,
        start in sequence_start(),
    ) {
        let (mut until, mut sealed, mut next) = (30, None, 10 * capacity);
        let generator = WorkerGenerator::new(grid(10, capacity, 0), start, 7, 10, until);
        for step in steps {
            match step {
                Step::Take { count, now, ahead } => {
                    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
                    let Ok(run) = generator.take(count, now, ahead) else { continue };
                    prop_assert!(sealed.is_none());
                    prop_assert!(run.first >= next && run.first >= now * capacity);
                    prop_assert!(run.count >= 1 && run.count <= u64::from(count.get()));
                    next = run.first + run.count;
                    prop_assert!(next <= until * capacity);
                    prop_assert!(next <= (now + ahead + 1) * capacity);
                }
                Step::Widen { epoch, until: to } => {
                    prop_assert_eq!(generator.widen(epoch, to), epoch == 7);
                    if epoch == 7 {
                        until = until.max(to);
                    }
                }
                Step::Seal => {
                    let used = generator.seal();
                    prop_assert_eq!(used, *sealed.get_or_insert(used));
                    prop_assert_eq!(used, next.div_ceil(capacity).max(10));
                }
            }
        }
    }
}

#[test]
fn take_past_the_last_tick_is_rejected() {
    let generator = WorkerGenerator::new(grid(4, 2, 0), SequenceStart::Zero, 1, 15, 99);
    let count = NonZeroU32::MIN.saturating_add(4);
    assert_eq!(generator.take(count, 15, 9).map(|run| run.count), Ok(2));
    let full = generator.take(count, 15, 9);
    assert_eq!(full, Err(NoId::EndOfTime));
    let full = generator.take(count, 99, 9);
    assert_eq!(full, Err(NoId::EndOfTime));
}

/// A layout that uses all bits of the word ends before an addition could reach the mark "sealed".
#[test]
fn take_at_the_end_of_the_word_does_not_seal() {
    let grid = grid(51, 1 << 12, 0);
    let last = (1 << 51) - 1;
    let generator = WorkerGenerator::new(grid, SequenceStart::Zero, 1, last - (1 << 21), u64::MAX);
    let count = NonZeroU32::MAX;
    assert!(generator.widen(1, u64::MAX));
    while generator.take(count, 0, u64::MAX).is_ok() {}
    let full = generator.take(count, 0, u64::MAX);
    assert_eq!(full, Err(NoId::EndOfTime));
}

#[test]
fn full_tick_reports_how_long_to_wait() {
    let generator = WorkerGenerator::new(grid(20, 4, 0), SequenceStart::Zero, 1, 0, 1_000);
    let count = NonZeroU32::MIN.saturating_add(7);
    assert_eq!(generator.take(count, 100, 1).map(|run| run.count), Ok(8));
    let wait = generator.take(count, 100, 1);
    assert_eq!(wait, Err(NoId::Full { wait_ticks: 1 }));
    let wait = generator.take(count, 90, 1);
    assert_eq!(wait, Err(NoId::Full { wait_ticks: 11 }));
}

#[test]
fn grid_too_wide_is_rejected() {
    use super::super::TickGrid;
    for (time, capacity, lanes) in [(0, 1, 0), (52, 4_096, 0), (41, 0, 0), (41, 1, 4)] {
        assert!(TickGrid::new(time, capacity, lanes).is_err());
    }
    assert!(TickGrid::new(u32::MAX, 1, 0).is_err());
    assert!(TickGrid::new(33, (1 << 30) + 1, 0).is_err());
    assert!(TickGrid::new(51, 4_095, 0).is_ok());
}

/// Makes a generator to which ticks 0 and 1 of 4,096 ids each are granted, and which adds: it has
/// handed out the first id.
fn adding_generator() -> WorkerGenerator {
    let generator = WorkerGenerator::new(grid(20, 4_096, 0), SequenceStart::Zero, 1, 0, 2);
    assert_eq!(take(&generator, 1), Ok(1));
    generator
}

fn take(generator: &WorkerGenerator, count: u32) -> Result<u64, NoId> {
    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    let taken = generator.take(count, 0, 9);
    taken.map(|run| run.count)
}

#[test]
fn large_request_at_the_limit_receives_what_is_left() {
    let generator = adding_generator();
    assert_eq!(take(&generator, 8_000), Ok(8_000));
    assert_eq!(take(&generator, 1_000), Ok(191));
    assert_eq!(take(&generator, 1), Err(NoId::Limit));
    let wide = WorkerGenerator::new(grid(20, 4_096, 0), SequenceStart::Zero, 1, 0, 900);
    let count = wide.take(NonZeroU32::MAX, 0, 900).map(|run| run.count);
    assert_eq!(count, Ok(1 << 20));
}

/// An addition that passes the limit hands out nothing, and the report stays within the grant.
#[test]
fn sealed_generator_reports_no_tick_beyond_its_grant() {
    let generator = adding_generator();
    for _ in 0..127 {
        assert_eq!(take(&generator, 64), Ok(64));
    }
    assert_eq!(take(&generator, 64), Err(NoId::Limit));
    assert_eq!(generator.seal(), 2);
    let empty = WorkerGenerator::new(grid(20, 4_096, 0), SequenceStart::Zero, 1, 9, 5);
    assert_eq!(take(&empty, 1), Err(NoId::Limit));
    assert_eq!(empty.seal(), 9);
}

/// Only a caller that time helps is sent to retry.
#[test]
fn full_generator_says_what_helps() {
    let text_of = |generator: &WorkerGenerator, now, ahead| {
        let full = generator.take(NonZeroU32::MIN, now, ahead);
        full.map_err(|full| full.to_string())
    };
    let generator = WorkerGenerator::new(grid(4, 1, 0), SequenceStart::Zero, 1, 0, 3);
    assert!(text_of(&generator, 0, 0).is_ok());
    for (now, ahead, until, text) in [
        (0, 0, 3, "the tick is used up; retry in 1 ticks"),
        (3, 0, 3, "the grant is used up; renew it"),
        (
            16,
            0,
            16,
            "the time of the layout has ended; use a later epoch",
        ),
    ] {
        generator.widen(1, until);
        let error = text_of(&generator, now, ahead);
        assert!(error.as_ref().is_err_and(|e| e.contains(text)), "{error:?}");
    }
    generator.seal();
    let error = text_of(&generator, 0, 0);
    assert!(error.is_err_and(|e| e.contains("is sealed; take from the next")));
}

/// Callers who find a tick full use up nothing of later ones: otherwise callers that retry without
/// a pause would use up the later ticks, and then the word.
#[test]
fn full_tick_costs_no_later_positions() {
    let generator = adding_generator();
    let one = |now| generator.take(NonZeroU32::MIN, now, 0);
    while one(0).is_ok() {}
    for _ in 0..10_000 {
        assert!(one(0).is_err());
    }
    let first = one(1).map(|run| run.first);
    assert!(first.is_ok_and(|first| first < 4_096 + 64), "{first:?}");
}

/// A tick begins at its random number also if all ids of the tick before are used.
#[test]
fn a4_random_start_follows_a_full_tick() {
    let start = SequenceStart::Random { below: 32, key: 1 };
    // The second one adds.
    for ahead in [1, 1_000] {
        let generator = WorkerGenerator::new(grid(20, 32, 0), start, 1, 0, 9_000);
        let mut next = 0;
        while next < 64 {
            let run = generator.take(NonZeroU32::MIN, 1, ahead);
            next = run.map_or(u64::MAX, |run| run.first + 1);
        }
        assert_eq!(next, 64);
        let first = generator.take(NonZeroU32::MIN, 2, ahead);
        assert!(first.is_ok_and(|run| run.first > 64), "{first:?}, {ahead}");
    }
}
