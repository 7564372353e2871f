//! Stamps: the time in ticks of 100 ns and random decimal digits, as text that sorts by time.
//!
//! A stamp is *not* unique among processes: the store rejects one that it has already, and its
//! maker takes another ([`until_unique`]).

mod until_unique;

use std::time::Duration;

pub use until_unique::{Insertion, UntilUniqueError, until_unique};

use crate::InputError;
use crate::rising_counter::RisingCounter;

/// 1970-01-01 in ticks since the year 1, as .NET counts them.
const UNIX_EPOCH_TICKS: u64 = 621_355_968_000_000_000;
/// Last tick of the year 9999, from which falling stamps count down.
const TICK_MAX: u64 = 3_155_378_975_999_999_999;
/// Most random digits.
pub const STAMP_DIGITS_MAX: u32 = 18;

/// Form of stamps: 19 digits of time, then random digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampForm {
    digits: u32,
    is_falling: bool,
}

impl StampForm {
    /// Makes a form. Falling stamps have the ticks that are left of the year 9999, so the newest
    /// sorts first.
    ///
    /// # Errors
    /// `digits` is not in 1 to [`STAMP_DIGITS_MAX`].
    pub fn new(digits: u32, is_falling: bool) -> Result<Self, InputError> {
        match (1..=STAMP_DIGITS_MAX).contains(&digits) {
            true => Ok(Self { digits, is_falling }),
            false => Err(InputError(format!(
                "digits out of range: {digits} is not in 1 to {STAMP_DIGITS_MAX}; use for example 4"
            ))),
        }
    }

    /// Returns the bounds of the stamps of a time range, `from` included and `until` not: each is
    /// at or above the first bound and below the second one, as text.
    pub fn bounds(self, from: Duration, until: Duration) -> (String, String) {
        let (from, until) = (ticks_at(from), ticks_at(until));
        match self.is_falling {
            true => (self.time_text(until - 1), self.time_text(from - 1)),
            false => (self.time_text(from), self.time_text(until)),
        }
    }

    /// Returns the share of stamps that meet another one, if all makers together make this many in
    /// a tick; 1 at most. Two in a tick of each of 100 cores, four digits: 1 in 50.
    pub fn collision_share(self, stamps_per_tick: f64) -> f64 {
        (stamps_per_tick / 10f64.powi(self.digits as i32)).min(1.0)
    }

    fn time_text(self, ticks: u64) -> String {
        let ticks = ticks.min(TICK_MAX);
        match self.is_falling {
            true => format!("{:019}", TICK_MAX - ticks),
            false => format!("{ticks:019}"),
        }
    }
}

/// Maker of stamps. Within one maker the time only rises, so no stamp of it repeats.
#[derive(Debug)]
pub struct StampMaker {
    form: StampForm,
    last_tick: RisingCounter,
}

impl StampMaker {
    /// Makes a maker of stamps of this form.
    pub fn new(form: StampForm) -> Self {
        let last_tick = RisingCounter::default();
        Self { form, last_tick }
    }

    /// Makes a stamp.
    pub fn make(&self, since_unix_epoch: Duration, mut random: impl FnMut() -> u64) -> String {
        let now = ticks_at(since_unix_epoch);
        let mut text = self.form.time_text(self.last_tick.next(|_| now));
        let bound = 10u128.pow(self.form.digits);
        let digits = (u128::from(random()) * bound) >> u64::BITS;
        let width = self.form.digits as usize;
        text.push_str(&format!("{digits:0width$}"));
        text
    }
}

fn ticks_at(since_unix_epoch: Duration) -> u64 {
    UNIX_EPOCH_TICKS + (since_unix_epoch.as_nanos() / 100) as u64
}
