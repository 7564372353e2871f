//! The section's protocols under loom: every schedule, up to a bound of preemptions.
//!
//! `RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p seqsvr-core --test
//! loom_section --release`
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroU32;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use seqsvr_core::section::{
    CounterKey, CurrentValue, NumberRange, Section, SectionGrant, TakeError,
};

const ONE: NonZeroU32 = NonZeroU32::MIN;
const A: CounterKey<'static> = CounterKey::Dense(0);
const B: CounterKey<'static> = CounterKey::Dense(1);
/// Greatest offset of a 32-bit cell.
const NARROW_MAX: u64 = u32::MAX as u64 - 16;

/// Runs a test under every schedule, up to a bound of preemptions.
fn check_schedules(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(test);
}

fn grant_up_to(max_seq: u64) -> SectionGrant {
    SectionGrant {
        generation: 1,
        base: 0,
        max_seq,
        first: Some(1),
        stride: 1,
    }
}

fn dense_section(max_seq: u64) -> Arc<Section> {
    Arc::new(Section::dense(grant_up_to(max_seq), 4))
}

fn keyed_section(max_seq: u64) -> Arc<Section> {
    Arc::new(Section::keyed(grant_up_to(max_seq), [1, 2]))
}

/// Makes the chunk before the threads start, for tests that are not about first touch.
fn touch_chunk(section: &Section) {
    section.raise_to(CounterKey::Dense(1), 1).unwrap();
}

fn spawn_call<T: 'static>(
    section: &Arc<Section>,
    work: impl FnOnce(&Section) -> T + 'static,
) -> thread::JoinHandle<T> {
    let section = section.clone();
    thread::spawn(move || work(&section))
}

/// Returns what one thread got by `times` calls: its numbers, each greater than the one before.
fn take_numbers(section: &Section, key: CounterKey<'_>, times: usize) -> Vec<u64> {
    let numbers: Vec<u64> = (0..times)
        .filter_map(|_| section.next(key, ONE).ok())
        .map(|range| range.last)
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "went back: {numbers:?}");
    numbers
}

fn merge_numbers(a: Vec<u64>, b: Vec<u64>) -> Vec<u64> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all
}

fn wait_until_drained(section: &Section) -> u64 {
    loop {
        match section.high_water_mark() {
            Some(last) => return last,
            None => thread::yield_now(),
        }
    }
}

/// Fails if a caller can enter between "sealed" and "no caller inside", or if its writes are not
/// visible to the thread that saw it leave.
#[test]
fn drained_section_hands_out_nothing() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let a = spawn_call(&section, |s| take_numbers(s, A, 2));
        let b = spawn_call(&section, |s| take_numbers(s, A, 1));
        section.seal();
        let last = wait_until_drained(&section);
        let numbers = merge_numbers(a.join().unwrap(), b.join().unwrap());
        // One key, so a number handed out after drained would be above `last`.
        assert_eq!(last, numbers.last().copied().unwrap_or(0).max(1));
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(wait_until_drained(&section), last);
    });
}

/// A counter found before the seal hands nothing out after drained: finding is not entering.
#[test]
fn counter_ref_found_before_the_seal_enters_like_any_other() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let by_spot = spawn_call(&section, |s| {
            let spot = s.find_counter(s.prepare_lookup(A).unwrap()).unwrap();
            let numbers = (0..2).filter_map(|_| spot.next(ONE).ok());
            numbers.map(|range| range.last).collect::<Vec<u64>>()
        });
        let by_key = spawn_call(&section, |s| take_numbers(s, A, 1));
        section.seal();
        let last = wait_until_drained(&section);
        let numbers = merge_numbers(by_spot.join().unwrap(), by_key.join().unwrap());
        assert_eq!(last, numbers.last().copied().unwrap_or(0).max(1));
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    });
}

/// A batch that entered before the seal may finish; the high-water mark covers all of it.
#[test]
fn drain_waits_for_a_batch() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let batch = spawn_call(&section, |s| {
            let Some(guard) = s.enter() else {
                return 0;
            };
            guard.next(A, ONE).unwrap();
            guard.next(A, ONE).unwrap();
            guard.next(B, ONE).unwrap().last
        });
        section.seal();
        let last = wait_until_drained(&section);
        // B was at 1, so a batch inside ends with 2 on both keys.
        assert_eq!(last, batch.join().unwrap().max(1));
    });
}

/// A RaiseTo that was acknowledged is covered by the high-water mark; a refused one changed
/// nothing.
#[test]
fn acknowledged_raise_to_is_in_the_high_water_mark() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let raise = spawn_call(&section, |s| s.raise_to(A, 7));
        let next = spawn_call(&section, |s| s.next(A, ONE));
        section.seal();
        let last = wait_until_drained(&section);
        let raised = raise.join().unwrap();
        let next = next.join().unwrap();
        match (raised, next) {
            (Ok(now), Ok(NumberRange { first, .. })) => {
                assert!(matches!(now, CurrentValue::Touched(7)));
                assert!(first == 1 || first == 8);
                assert_eq!(last, first.max(7));
            }
            (Ok(_), Err(_)) => assert_eq!(last, 7),
            (Err(refusal), next) => {
                assert_eq!(refusal, TakeError::Sealed);
                assert_eq!(last, 1);
                assert!(next.is_err() || next == Ok(NumberRange { first: 1, last: 1 }));
            }
        }
    });
}

/// Two threads request four numbers of a window of three.
#[test]
fn counter_never_repeats_nor_passes_the_window() {
    check_schedules(|| {
        let section = dense_section(3);
        touch_chunk(&section);
        let a = spawn_call(&section, |s| take_numbers(s, A, 2));
        let b = take_numbers(&section, A, 2);
        assert!(section.highest_offset() <= 3);
        assert_eq!(merge_numbers(a.join().unwrap(), b), [1, 2, 3]);
        assert_eq!(
            section.next(A, ONE),
            Err(TakeError::WindowExhausted { needed: 4 })
        );
    });
}

/// The section hands out a number above the old window only after it received the wider one.
#[test]
fn window_widened_while_numbers_are_taken_repeats_nothing() {
    check_schedules(|| {
        let section = dense_section(1);
        touch_chunk(&section);
        let durable = Arc::new(AtomicBool::new(false));
        let raised = durable.clone();
        let widen = spawn_call(&section, move |s| {
            raised.store(true, Ordering::Release);
            s.widen_to(3);
            s.widen_to(2);
        });
        assert_eq!(section.next(A, ONE), Ok(NumberRange { first: 1, last: 1 }));
        match section.next(A, ONE) {
            Ok(NumberRange { last: 2, .. }) => assert!(durable.load(Ordering::Acquire)),
            Err(TakeError::WindowExhausted { needed: 2 }) => {}
            other => panic!("{other:?}"),
        }
        widen.join().unwrap();
        assert_eq!((section.offset_limit(), section.max_seq()), (3, 3));
        assert!(section.next(A, ONE).is_ok());
    });
}

/// Two threads cross the 32-bit edge together; a reader watches.
#[test]
fn counter_that_grows_wide_repeats_nothing_and_never_goes_back() {
    check_schedules(|| {
        let section = dense_section(NARROW_MAX * 2);
        section.raise_to(A, NARROW_MAX - 1).unwrap();
        let a = spawn_call(&section, |s| take_numbers(s, A, 2));
        let b = spawn_call(&section, |s| take_numbers(s, A, 1));
        let CurrentValue::Touched(seen) = section.current(A).unwrap() else {
            panic!("the key was touched");
        };
        let CurrentValue::Touched(seen_later) = section.current(A).unwrap() else {
            panic!("the key was touched");
        };
        assert!(seen <= seen_later);
        let all = merge_numbers(a.join().unwrap(), b.join().unwrap());
        assert_eq!(all, [NARROW_MAX, NARROW_MAX + 1, NARROW_MAX + 2]);
        assert_eq!(
            section.current(A),
            Ok(CurrentValue::Touched(NARROW_MAX + 2))
        );
        section.seal();
        assert_eq!(section.high_water_mark(), Some(NARROW_MAX + 2));
    });
}

/// A RaiseTo far above moves the key to a wide counter while callers use it.
#[test]
fn raise_to_wide_while_numbers_are_taken_repeats_nothing() {
    check_schedules(|| {
        let far = NARROW_MAX + 1_000;
        let section = dense_section(NARROW_MAX * 2);
        touch_chunk(&section);
        let raise = spawn_call(&section, move |s| {
            assert_eq!(s.raise_to(A, far), Ok(CurrentValue::Touched(far)));
            s.next(A, ONE).unwrap().last
        });
        let taken = take_numbers(&section, A, 2);
        let after = raise.join().unwrap();
        assert!(after > far);
        let mut all = merge_numbers(taken.clone(), vec![after]);
        all.dedup();
        assert_eq!(all.len(), 3, "a number was repeated: {taken:?} {after}");
        assert!(taken.iter().all(|n| *n <= 2 || *n > far));
    });
}

/// A RaiseTo overtaken by callers lowers nothing.
#[test]
fn late_raise_to_lowers_nothing() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let raise = spawn_call(&section, |s| s.raise_to(A, 2));
        let taken = take_numbers(&section, A, 3);
        let Ok(CurrentValue::Touched(now)) = raise.join().unwrap() else {
            panic!("the window reaches");
        };
        assert!(now >= 2);
        assert!(taken == [1, 2, 3] || taken == [1, 3, 4] || taken == [3, 4, 5]);
        let last = section.next(A, ONE).unwrap().last;
        assert_eq!(last, taken[2] + 1);
    });
}

/// Two calls that raise a key only if it is untouched, and one that takes its numbers: at most one
/// raise finds the key untouched, and none if the number was taken before.
#[test]
fn raise_of_an_untouched_key_succeeds_once() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let raise = spawn_call(&section, |s| s.raise_untouched(A, 4).unwrap().1);
        let other = spawn_call(&section, |s| s.raise_untouched(A, 6).unwrap().1);
        let taken = section.next(A, ONE).unwrap().last;
        let wins = [raise.join().unwrap(), other.join().unwrap()];
        match wins {
            [true, false] => assert_eq!(taken, 5),
            [false, true] => assert_eq!(taken, 7),
            [false, false] => assert_eq!(taken, 1),
            [true, true] => panic!("both found the key untouched"),
        }
    });
}

/// Two threads touch one new uid: one chunk, one counter.
#[test]
fn first_touch_of_a_dense_key_makes_one_chunk() {
    check_schedules(|| {
        let section = dense_section(10);
        let a = spawn_call(&section, |s| take_numbers(s, A, 1));
        let b = take_numbers(&section, A, 1);
        assert_eq!(merge_numbers(a.join().unwrap(), b), [1, 2]);
        assert_eq!(section.keys_in_memory(), 1);
    });
}

/// Two threads touch one new key: one entry.
#[test]
fn first_touch_of_a_keyed_key_makes_one_entry() {
    check_schedules(|| {
        let section = keyed_section(10);
        let a = spawn_call(&section, |s| take_numbers(s, CounterKey::Keyed(b"a"), 1));
        let b = take_numbers(&section, CounterKey::Keyed(b"a"), 2);
        assert_eq!(merge_numbers(a.join().unwrap(), b), [1, 2, 3]);
        assert_eq!(section.keys_in_memory(), 1);
    });
}

/// Under loom a first level takes one key: new keys open levels while an old one is in use.
#[test]
fn keys_stay_found_while_levels_are_added() {
    check_schedules(|| {
        let section = keyed_section(10);
        assert_eq!(take_numbers(&section, CounterKey::Keyed(b"old"), 1), [1]);
        let grow = spawn_call(&section, |s| {
            assert_eq!(take_numbers(s, CounterKey::Keyed(b"x"), 1), [1]);
            assert_eq!(take_numbers(s, CounterKey::Keyed(b"y"), 1), [1]);
            take_numbers(s, CounterKey::Keyed(b"old"), 1)
        });
        let here = take_numbers(&section, CounterKey::Keyed(b"old"), 2);
        assert_eq!(merge_numbers(grow.join().unwrap(), here), [2, 3, 4]);
        for key in [b"x", b"y"] {
            assert_eq!(
                section.current(CounterKey::Keyed(key)),
                Ok(CurrentValue::Touched(1))
            );
        }
    });
}

/// Once a thread saw drained, the next owner may go further: no `current` that begins then answers.
#[test]
fn current_of_a_drained_section_is_rejected() {
    check_schedules(|| {
        let section = dense_section(10);
        touch_chunk(&section);
        let elsewhere = Arc::new(AtomicBool::new(false));
        let go = elsewhere.clone();
        let owner = spawn_call(&section, move |s| {
            s.seal();
            wait_until_drained(s);
            go.store(true, Ordering::Release);
        });
        let moved = elsewhere.load(Ordering::Acquire);
        let answer = section.current(B);
        assert!(!(moved && answer.is_ok()));
        owner.join().unwrap();
    });
}
