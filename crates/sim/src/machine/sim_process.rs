//! Process of a machine: a tokio runtime whose time follows the clocks of the machine.

use std::future::Future;
use std::time::Duration;

use seqsvr_core::sim;
use tokio::runtime::{Builder, RngSeed, Runtime};
use tokio::time::Instant;

use super::machine_clock::MachineClock;

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
        let seed = sim::mix_bits(seed, start);
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
        sim::enter_process(self.start_number);
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
        sim::enter_process(self.start_number);
        drop(self.runtime.take());
    }
}
