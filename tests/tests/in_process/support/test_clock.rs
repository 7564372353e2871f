//! Test double: a clock that the test controls.
//!
//! It can jump forward or stop.

use std::sync::Mutex;
use std::time::Duration;

use seqsvr_alloc::{Clock, SystemClock};
use seqsvr_core::lease::ClockReading;

#[derive(Default)]
pub(crate) struct TestClock(Mutex<TestClockState>);

#[derive(Default)]
struct TestClockState {
    ahead: Duration,
    frozen: Option<ClockReading>,
}

impl TestClock {
    pub(crate) fn jump(&self, by: Duration) {
        self.0.lock().unwrap().ahead += by;
    }

    pub(crate) fn freeze(&self) {
        let now = self.now();
        self.0.lock().unwrap().frozen = Some(now);
    }

    pub(crate) fn thaw(&self) {
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
