//! Process of a machine: a tokio runtime whose time follows the clocks of the machine.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::lease::Reading;
use seqsvr_core::sim;
use tokio::runtime::{Builder, RngSeed, Runtime};
use tokio::time::Instant;

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
    /// Creates clocks at the start of a run. `delay_output` delays what the machine sends until a time
    /// (ms).
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
    pub fn read_as_alloc(&self) -> Reading {
        let now = self.count_read();
        self.0.clocks.lock().alloc_reading(now)
    }

    /// Returns what a store reads; counts as a clock read.
    pub fn read_as_store(&self) -> Reading {
        let now = self.count_read();
        self.0.clocks.lock().store_reading(now)
    }

    /// Returns what an AllocSvr would read now; does not count as a clock read.
    pub fn peek_as_alloc(&self) -> Reading {
        let now = self.0.now_ms.load(Relaxed) * NS_PER_MS;
        self.0.clocks.lock().alloc_reading(now)
    }

    fn timer_ns(&self) -> u64 {
        let now = self.0.now_ms.load(Relaxed) * NS_PER_MS;
        self.0.clocks.lock().timer_ns(now)
    }
}

/// Running process.
pub struct SimProcess {
    /// Number of its start, unique in the run.
    pub start_number: u64,
    runtime: Option<Runtime>,
    /// Start of the process in its own time; `base_ns` is that moment on the timers of its machine.
    base_instant: Instant,
    base_ns: u64,
    clock: MachineClock,
    /// Time until which the process gets no turn, ms.
    paused_until: u64,
    /// Whether the process has missed turns.
    has_missed_turns: bool,
}

impl SimProcess {
    /// Creates a process without tasks.
    ///
    /// # Errors
    /// If the operating system provides no runtime.
    pub fn new(
        start: u64,
        seed: u64,
        clock: MachineClock,
        now: u64,
    ) -> std::io::Result<SimProcess> {
        clock.set_now_ms(now);
        let seed = sim::mix(seed, start);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
            .event_interval(1 + (seed % 61) as u32)
            .global_queue_interval(1 + (seed >> 32) as u32 % 31)
            .build()?;
        let base_instant = {
            let _entered = runtime.enter();
            Instant::now()
        };
        Ok(SimProcess {
            start_number: start,
            runtime: Some(runtime),
            base_instant,
            base_ns: clock.timer_ns(),
            clock,
            paused_until: 0,
            has_missed_turns: false,
        })
    }

    /// Starts a task in the process.
    pub fn spawn_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Stops the process, as SIGSTOP does, until a simulated time (ms).
    pub fn pause_until(&mut self, until: u64) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Continues a stopped process.
    pub fn resume_at(&mut self, now: u64) {
        self.paused_until = self.paused_until.min(now);
    }

    /// Returns whether the process gets a turn at this time.
    pub fn is_running(&self, now: u64) -> bool {
        now >= self.paused_until.max(self.clock.stopped_until())
    }

    /// Runs the process until its own time corresponds to the simulated time `now` (ms).
    pub fn run_until(&mut self, now: u64) {
        self.clock.set_now_ms(now);
        if !self.is_running(now) {
            self.has_missed_turns = true;
            return;
        }
        let Some(runtime) = &self.runtime else { return };
        sim::enter(self.start_number);
        let passed = self.clock.timer_ns() - self.base_ns;
        let until = self.base_instant + Duration::from_nanos(passed);
        if std::mem::take(&mut self.has_missed_turns) {
            // A process that was stopped sees the time jump, and all its timers fire late.
            runtime.block_on(async move {
                let late = until.saturating_duration_since(Instant::now());
                tokio::time::advance(late).await;
            });
        }
        runtime.block_on(async move { tokio::time::sleep_until(until).await });
    }
}

impl Drop for SimProcess {
    fn drop(&mut self) {
        sim::enter(self.start_number);
        drop(self.runtime.take());
    }
}
