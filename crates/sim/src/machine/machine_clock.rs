//! Clocks of a machine as its process reads them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seqsvr_core::lease::ClockReading;
use seqsvr_store::clock::WallReading;

use super::clock_set::ClockSet;

const NS_PER_MS: u64 = 1_000_000;

/// Clocks of a machine, with a planned stop of its process at a clock read. Clones share them.
#[derive(Clone)]
pub struct MachineClock(Arc<ClockState>);

struct ClockState {
    clocks: Mutex<ClockSet>,
    /// Simulated time, ms.
    now_ms: AtomicU64,
    /// Clock reads until the process stops in the middle of one; 0: no stop is planned.
    reads_to_pause: AtomicU64,
    /// Length of that stop, ms.
    pause_ms: AtomicU64,
    /// End of the stop, ms. Reads after the stop return that time.
    stopped_until: AtomicU64,
    /// Delays what the machine sends until a time (ms).
    delay_output: Box<dyn Fn(u64) + Send + Sync>,
}

impl MachineClock {
    /// Creates clocks at the start of a run. `delay_output` delays what the machine sends until a
    /// time (ms).
    pub fn new(
        clocks: ClockSet,
        delay_output: impl Fn(u64) + Send + Sync + 'static,
    ) -> MachineClock {
        MachineClock(Arc::new(ClockState {
            clocks: Mutex::new(clocks),
            now_ms: AtomicU64::new(0),
            reads_to_pause: AtomicU64::new(0),
            pause_ms: AtomicU64::new(0),
            stopped_until: AtomicU64::new(0),
            delay_output: Box::new(delay_output),
        }))
    }

    /// Cancels a stop at a clock read: the process has ended, or all faults have.
    pub fn cancel_pause(&self) {
        self.0.reads_to_pause.store(0, Relaxed);
        self.0.stopped_until.store(0, Relaxed);
        (self.0.delay_output)(0);
    }

    /// Calls `change` with the clocks and the time in ns.
    pub fn change_clocks(&self, change: impl FnOnce(&mut ClockSet, u64)) {
        let now = self.0.now_ms.load(Relaxed) * NS_PER_MS;
        change(&mut self.0.clocks.lock(), now);
    }

    /// Plans a stop of `ms` milliseconds at the clock read after `reads` others.
    pub fn plan_pause_at_read(&self, reads: u64, ms: u64) {
        self.0.pause_ms.store(ms, Relaxed);
        self.0.reads_to_pause.store(reads + 1, Relaxed);
    }

    /// Returns the end of the stop at a clock read, ms.
    pub fn stopped_until(&self) -> u64 {
        self.0.stopped_until.load(Relaxed)
    }

    /// Sets the simulated time, ms.
    pub fn set_now_ms(&self, now: u64) {
        self.0.now_ms.store(now, Relaxed);
    }

    /// Counts a clock read of the process, and returns the time that the process sees, ns.
    fn count_read(&self) -> u64 {
        let state = &self.0;
        let now = state.now_ms.load(Relaxed);
        let reads_left = state.reads_to_pause.load(Relaxed);
        if reads_left > 0 {
            state.reads_to_pause.store(reads_left - 1, Relaxed);
            if reads_left == 1 {
                let until = now + state.pause_ms.load(Relaxed);
                state.stopped_until.store(until, Relaxed);
                (state.delay_output)(until);
                seqsvr_core::reached!("a process was stopped in the middle of a clock read");
            }
        }
        now.max(state.stopped_until.load(Relaxed)) * NS_PER_MS
    }

    /// Returns what an AllocSvr reads; counts as a clock read.
    pub fn read_as_alloc(&self) -> ClockReading {
        let now = self.count_read();
        self.0.clocks.lock().alloc_reading(now)
    }

    /// Returns what a store reads; counts as a clock read.
    pub fn read_as_store(&self) -> ClockReading {
        let now = self.count_read();
        self.0.clocks.lock().store_reading(now)
    }

    /// Returns what an AllocSvr would read now; does not count as a clock read.
    pub fn peek_as_alloc(&self) -> ClockReading {
        let now = self.0.now_ms.load(Relaxed) * NS_PER_MS;
        self.0.clocks.lock().alloc_reading(now)
    }

    /// Returns the wall clock; does not count as a clock read.
    pub fn peek_wall(&self) -> WallReading {
        let now = self.0.now_ms.load(Relaxed) * NS_PER_MS;
        let clocks = self.0.clocks.lock();
        WallReading {
            unix_ns: clocks.wall_ns(now),
            boot_ns: clocks.alloc_reading(now).main_ns,
        }
    }

    /// Returns the clock that timers follow, ns.
    pub(super) fn timer_ns(&self) -> u64 {
        let now = self.0.now_ms.load(Relaxed) * NS_PER_MS;
        self.0.clocks.lock().timer_ns(now)
    }
}
