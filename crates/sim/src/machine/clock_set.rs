//! Clocks of a machine: each has a rate of its own, and a suspended machine stops some of them.

use seqsvr_core::lease::ClockReading;

/// Rate of a clock without error, in parts per million.
pub const TRUE_RATE: u64 = 1_000_000;

/// Clock that runs at a constant rate since a moment.
#[derive(Clone, Copy, Debug)]
struct ClockLine {
    /// Simulated time of that moment, ns.
    from: u64,
    /// Reading of the clock at that moment, ns.
    start_reading: u64,
    /// Rate, in parts per million of simulated time.
    rate: u64,
}

impl ClockLine {
    fn reading_at(&self, now: u64) -> u64 {
        let passed = u128::from(now - self.from) * u128::from(self.rate);
        self.start_reading + (passed / u128::from(TRUE_RATE)) as u64
    }

    fn set_rate(&mut self, now: u64, rate: u64) {
        *self = ClockLine {
            from: now,
            start_reading: self.reading_at(now),
            rate,
        };
    }
}

/// Rates of a machine's clocks, in parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rates {
    /// Rate of BOOTTIME and MONOTONIC, which NTP slews.
    pub main: u64,
    /// Rate of MONOTONIC_RAW.
    pub raw: u64,
}

impl Rates {
    /// Rates of clocks without error.
    pub const TRUE: Rates = Rates {
        main: TRUE_RATE,
        raw: TRUE_RATE,
    };
}

/// All clocks of one machine. Times are simulated nanoseconds.
#[derive(Clone, Debug)]
pub struct ClockSet {
    boot: ClockLine,
    monotonic: ClockLine,
    raw: ClockLine,
    /// Wall clock, as Unix time.
    wall: ClockLine,
    rates: Rates,
    is_suspended: bool,
}

/// Reading of all clocks at the start of a run. Not 0, so that no reading is near zero.
const START_READING_NS: u64 = 1_000_000_000_000;
/// Unix time at the start of a run: some day of 2026.
pub const START_UNIX_NS: u64 = 1_795_000_000_000_000_000;

impl ClockSet {
    /// Creates the clocks of a machine at the start of a run.
    pub fn new(rates: Rates) -> ClockSet {
        let line_from = |start_reading, rate| ClockLine {
            from: 0,
            start_reading,
            rate,
        };
        let new_line = |rate| line_from(START_READING_NS, rate);
        ClockSet {
            boot: new_line(rates.main),
            monotonic: new_line(rates.main),
            raw: new_line(rates.raw),
            wall: line_from(START_UNIX_NS, TRUE_RATE),
            rates,
            is_suspended: false,
        }
    }

    /// Changes the rates.
    pub fn set_rates(&mut self, now: u64, rates: Rates) {
        self.rates = rates;
        self.apply_rates(now);
    }

    /// Suspends or resumes the machine: all clocks except BOOTTIME stop while it is suspended.
    pub fn set_suspended(&mut self, now: u64, is_suspended: bool) {
        self.is_suspended = is_suspended;
        self.apply_rates(now);
    }

    fn apply_rates(&mut self, now: u64) {
        let awake = u64::from(!self.is_suspended);
        self.boot.set_rate(now, self.rates.main);
        self.monotonic.set_rate(now, self.rates.main * awake);
        self.raw.set_rate(now, self.rates.raw * awake);
    }

    /// Moves MONOTONIC and BOOTTIME forward, which a real kernel never does.
    pub fn jump_ahead(&mut self, now: u64, by: u64) {
        self.boot.set_rate(now, self.boot.rate);
        self.monotonic.set_rate(now, self.monotonic.rate);
        self.boot.start_reading += by;
        self.monotonic.start_reading += by;
    }

    /// Sets the wall clock to a distance from the time, from where it runs at a rate of its own.
    pub fn set_wall(&mut self, now: u64, by_ns: i64, rate: u64) {
        self.wall = ClockLine {
            from: now,
            start_reading: (START_UNIX_NS + now).saturating_add_signed(by_ns),
            rate,
        };
    }

    /// Returns the wall clock as Unix time, ns.
    pub fn wall_ns(&self, now: u64) -> u64 {
        self.wall.reading_at(now)
    }

    /// Returns what an AllocSvr reads.
    pub fn alloc_reading(&self, now: u64) -> ClockReading {
        ClockReading {
            main_ns: self.boot.reading_at(now),
            raw_ns: self.raw.reading_at(now),
        }
    }

    /// Returns what a store reads.
    pub fn store_reading(&self, now: u64) -> ClockReading {
        ClockReading {
            main_ns: self.monotonic.reading_at(now),
            raw_ns: self.raw.reading_at(now),
        }
    }

    /// Returns the clock that timers follow, ns.
    pub fn timer_ns(&self, now: u64) -> u64 {
        self.monotonic.reading_at(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_set_of_suspended_machine_stops_all_but_boottime() {
        let mut clocks = ClockSet::new(Rates {
            main: 1_100_000,
            raw: 900_000,
        });
        clocks.set_suspended(1_000, true);
        clocks.set_suspended(2_000, false);
        let reading = clocks.alloc_reading(3_000);
        assert_eq!(reading.main_ns - START_READING_NS, 3_300);
        assert_eq!(reading.raw_ns - START_READING_NS, 1_800);
        assert_eq!(clocks.timer_ns(3_000) - START_READING_NS, 2_200);
    }

    #[test]
    fn wall_clock_follows_the_time_unless_it_lies() {
        let mut clocks = ClockSet::new(Rates {
            main: 0,
            raw: 2_000_000,
        });
        clocks.set_suspended(1_000, true);
        assert_eq!(clocks.wall_ns(2_000), START_UNIX_NS + 2_000);
        clocks.set_wall(2_000, -5_000, 2 * TRUE_RATE);
        assert_eq!(clocks.wall_ns(2_000), START_UNIX_NS - 3_000);
        assert_eq!(clocks.wall_ns(4_000), START_UNIX_NS + 1_000);
        clocks.set_wall(4_000, 0, TRUE_RATE);
        assert_eq!(clocks.wall_ns(5_000), START_UNIX_NS + 5_000);
    }
}
