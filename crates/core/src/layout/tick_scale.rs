//! How ticks are counted: from an epoch, in a unit.

use serde::{Deserialize, Serialize};

use super::{InputError, parse_decimal};

/// Longest tick: one hour.
pub const UNIT_MS_MAX: u64 = 3_600_000;
/// Last millisecond of the year 9999.
const EPOCH_MS_MAX: u64 = 253_402_300_799_999;

/// The epoch and the unit of ticks. It is stored as these two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "(u64, u64)", try_from = "(u64, u64)")]
pub struct TickScale {
    epoch_ms: u64,
    unit_ms: u64,
}

impl TickScale {
    /// Makes the scale of ticks of `unit_ms` milliseconds since the Unix time `epoch_ms`.
    ///
    /// # Errors
    /// The unit is 0 or above [`UNIT_MS_MAX`], or the epoch is after the year 9999.
    pub fn new(epoch_ms: u64, unit_ms: u64) -> Result<TickScale, InputError> {
        if unit_ms == 0 || unit_ms > UNIT_MS_MAX {
            return Err(bad_unit(&format!("{unit_ms}ms")));
        }
        match epoch_ms <= EPOCH_MS_MAX {
            true => Ok(TickScale { epoch_ms, unit_ms }),
            false => Err(InputError(format!(
                "the epoch {epoch_ms} ms is after the year 9999: it is a Unix time in \
                 milliseconds; write for example 1767225600000"
            ))),
        }
    }

    /// Parses a unit of time, such as `1ms`, `10ms` or `1s`, to milliseconds.
    ///
    /// # Errors
    /// The text is not a number with `ms` or `s`, or is out of bounds.
    pub fn parse_unit(text: &str) -> Result<u64, InputError> {
        let (digits, factor) = match text.strip_suffix("ms") {
            Some(digits) => (digits, 1),
            None => (text.strip_suffix('s').unwrap_or_default(), 1_000),
        };
        let unit_ms = parse_decimal(digits).and_then(|count| count.checked_mul(factor));
        let unit_ms = unit_ms.filter(|ms| (1..=UNIT_MS_MAX).contains(ms));
        unit_ms.ok_or_else(|| bad_unit(text))
    }

    /// Returns the Unix time of tick 0 in milliseconds.
    pub fn epoch_ms(self) -> u64 {
        self.epoch_ms
    }

    /// Returns the length of a tick in milliseconds.
    pub fn unit_ms(self) -> u64 {
        self.unit_ms
    }

    /// Returns the tick of a Unix time in milliseconds; None before the epoch.
    pub fn tick_at(self, unix_ms: u64) -> Option<u64> {
        Some(unix_ms.checked_sub(self.epoch_ms)? / self.unit_ms)
    }

    /// Returns the first tick that begins at or after a time.
    pub fn first_tick_from(self, unix_ms: u64) -> u64 {
        let since_epoch = unix_ms.saturating_sub(self.epoch_ms);
        since_epoch.div_ceil(self.unit_ms)
    }

    /// Returns the Unix time in milliseconds at which a tick begins; the greatest number if that
    /// is beyond it.
    pub fn unix_ms_of(self, tick: u64) -> u64 {
        let since_epoch = tick.saturating_mul(self.unit_ms);
        since_epoch.saturating_add(self.epoch_ms)
    }
}

impl From<TickScale> for (u64, u64) {
    fn from(scale: TickScale) -> (u64, u64) {
        (scale.epoch_ms, scale.unit_ms)
    }
}

impl TryFrom<(u64, u64)> for TickScale {
    type Error = InputError;

    fn try_from((epoch_ms, unit_ms): (u64, u64)) -> Result<TickScale, InputError> {
        TickScale::new(epoch_ms, unit_ms)
    }
}

fn bad_unit(text: &str) -> InputError {
    InputError(format!(
        "the unit {text:?} is no unit of time: it is 1ms to 3600000ms; write for example 10ms or 1s"
    ))
}
