//! What the founding texts say about stamps, which the store finds unique. Each test bears the
//! number of its row.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Duration;

use seqsvr_ids::stamp::{Insertion, StampForm, StampMaker, UntilUniqueError, until_unique};

/// 2022-02-22T19:22:22Z.
const NOW: Duration = Duration::from_secs(1_645_557_742);

/// Returns numbers in a fixed order.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ (state >> 29)
    }
}

#[test]
fn c2_time_and_random_digits_are_a_stamp() {
    let stamps = StampMaker::new(StampForm::new(4, false).unwrap());
    assert_eq!(stamps.make(NOW, || 0), "06378115454200000000000");
    let falling = StampMaker::new(StampForm::new(4, true).unwrap());
    assert_eq!(falling.make(NOW, || u64::MAX), "25175674305799999999999");
}

#[test]
fn d1_d6_stamps_rise_or_fall_with_time_as_text() {
    let times = [0, 1, 1_645_557_742, 1_645_557_743, 253_402_300_799].map(Duration::from_secs);
    let rising = StampMaker::new(StampForm::new(4, false).unwrap());
    let falling = StampMaker::new(StampForm::new(4, true).unwrap());
    let mut random = numbers(1);
    let up: Vec<_> = times.iter().map(|t| rising.make(*t, &mut random)).collect();
    let down: Vec<_> = times
        .iter()
        .map(|t| falling.make(*t, &mut random))
        .collect();
    assert!(up.is_sorted(), "{up:?}");
    assert!(down.iter().rev().is_sorted(), "{down:?}");
    assert!(up.iter().chain(&down).all(|stamp| stamp.len() == 19 + 4));
}

#[test]
fn d6_stamps_of_a_time_range_lie_between_two_bounds() {
    let tick = Duration::from_nanos(100);
    let (from, until) = (NOW, NOW + Duration::from_secs(60));
    for is_falling in [false, true] {
        let form = StampForm::new(4, is_falling).unwrap();
        let (low, high) = form.bounds(from, until);
        for random in [0, u64::MAX] {
            let is_within = |time| {
                let stamp = StampMaker::new(form).make(time, || random);
                low <= stamp && stamp < high
            };
            assert!(is_within(from) && is_within(until - tick), "{low} {high}");
            assert!(!is_within(from - tick) && !is_within(until), "{low} {high}");
        }
    }
}

#[test]
fn d6_one_maker_repeats_no_stamp_when_the_clock_is_set_back() {
    let stamps = StampMaker::new(StampForm::new(1, false).unwrap());
    let times = (0..1_000).map(|i| NOW + Duration::from_nanos(100 * (i % 7)));
    let made: Vec<_> = times.map(|time| stamps.make(time, || 0)).collect();
    assert!(made.is_sorted_by(|a, b| a < b));
}

#[test]
fn d6_two_ids_a_tick_of_100_cores_collide_1_in_50_with_4_digits() {
    let share = |digits, per_tick| {
        let form = StampForm::new(digits, false).unwrap();
        form.collision_share(per_tick)
    };
    assert!((share(4, 2.0 * 100.0) - 1.0 / 50.0).abs() < 1e-12);
    assert!((share(9, 2.0 * 100.0) - 2e-7).abs() < 1e-12);
    assert!((share(1, 200.0) - 1.0).abs() < 1e-12);
}

#[test]
fn d6_digits_out_of_bounds_are_rejected() {
    for digits in [0, 19] {
        let error = StampForm::new(digits, false).unwrap_err().to_string();
        assert!(error.contains("1 to 18"), "{error}");
    }
    let stamps = StampMaker::new(StampForm::new(18, false).unwrap());
    assert!(
        stamps
            .make(NOW, || u64::MAX)
            .ends_with("999999999999999999")
    );
}

/// A store with a unique key, into which 200 makers insert in one tick.
#[test]
fn d5_an_id_that_is_taken_is_made_again() {
    let mut random = numbers(7);
    let mut taken_ids = HashSet::new();
    let mut retries = 0;
    for _ in 0..200 {
        let attempts = NonZeroU32::new(8).unwrap();
        let id = until_unique(
            attempts,
            |taken| {
                retries += u32::from(taken > 0);
                // A maker of its own, so that all have one tick.
                StampMaker::new(StampForm::new(4, false).unwrap()).make(NOW, &mut random)
            },
            |id: &String| match taken_ids.insert(id.clone()) {
                true => Ok::<_, ()>(Insertion::Done),
                false => Ok(Insertion::Taken),
            },
        );
        assert!(id.is_ok());
    }
    assert_eq!(taken_ids.len(), 200);
    // Half of 1 in 50 of 200 inserts is expected, since the first ones meet few.
    assert!((1..=8).contains(&retries), "{retries}");
}

#[test]
fn d5_attempts_are_bounded_and_failures_are_not_retried() {
    let attempts = NonZeroU32::new(8).unwrap();
    let mut made = 0;
    let all_taken = until_unique(
        attempts,
        |_| made += 1,
        |()| Ok::<_, &str>(Insertion::Taken),
    );
    assert_eq!(all_taken, Err(UntilUniqueError::AllTaken { attempts }));
    assert!(
        all_taken
            .unwrap_err()
            .to_string()
            .contains("all 8 were taken")
    );
    assert_eq!(made, 8);
    let failed = until_unique(attempts, |_| made += 1, |()| Err("away"));
    assert_eq!((failed, made), (Err(UntilUniqueError::Store("away")), 9));
}
