//! Test double: a clock that the test controls.
//!
//! It can jump forward or stop.

use std::sync::Mutex;
use std::time::Duration;

use seqsvr_alloc::{Clock, SystemClock};
use seqsvr_core::lease::ClockReading;

/// A clock that follows the system's clock unless the test changes it.
#[derive(Default)]
pub struct TestClock(Mutex<TestClockState>);

#[derive(Default)]
struct TestClockState {
    ahead: Duration,
    frozen: Option<ClockReading>,
}

impl TestClock {
    /// Moves the clock forward.
    pub fn jump(&self, by: Duration) {
        self.0.lock().unwrap().ahead += by;
    }

    /// Stops the clock at its present time.
    pub fn freeze(&self) {
        let now = self.now();
        self.0.lock().unwrap().frozen = Some(now);
    }

    /// Lets a stopped clock continue, at the time that it would have without the stop.
    pub fn thaw(&self) {
        self.0.lock().unwrap().frozen = None;
    }
}

impl Clock for TestClock {
    fn now(&self) -> ClockReading {
        let state = self.0.lock().unwrap();
        let now = SystemClock.now();
        let ahead = state.ahead.as_nanos() as u64;
        state.frozen.unwrap_or(ClockReading {
            main_ns: now.main_ns + ahead,
            raw_ns: now.raw_ns + ahead,
        })
    }
}
