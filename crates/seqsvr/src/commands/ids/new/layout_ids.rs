//! Ids of a preset by the clock of the system, for one process.
//!
//! Invariant: processes of one worker that run one after another repeat no id while the clock does
//! not go back. Schedule that breaks it: a process ends, and the next one begins in the same tick
//! with the same sequence numbers. So each begins with a tick of which it saw the start, and one
//! that is ahead of the clock at its end says until when.

use std::num::NonZeroU32;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use seqsvr_core::layout::{TickScale, format_utc_ms};
use seqsvr_ids::generator::{
    Ahead, ClockPolicy, Clocked, Hold, Refuse, Rejection, RollbackBits, SequenceStart, Splicer,
    TickClock, Timelines, Wait,
};
use seqsvr_ids::presets::IdPreset;

use super::bad_input;
use super::worker_number::find_worker;
use crate::cli::{NewIdArgs, PolicyFlag};
use crate::commands::ids::now;
use crate::output::log;

/// Ticks that policies wait for: 5 ms in Leaf.
const WAIT_TICKS: u64 = 5;
const WAIT: Wait = Wait {
    max_ticks: WAIT_TICKS,
    factor: 2,
};
const AHEAD: Ahead = Ahead { max_ticks: 1_000 };
const ROLLBACK_BITS: RollbackBits = RollbackBits {
    wait_ticks: WAIT_TICKS,
};
const TIMELINES: Timelines = Timelines {
    wait_ticks: WAIT_TICKS,
};
/// Leaf begins a millisecond at a number below this.
const LEAF_START_BELOW: u32 = 100;

/// Ids of one worker of a preset.
pub(super) struct LayoutIds {
    generator: Clocked<PolicyFlag>,
    splicer: Splicer,
    clock: SystemTicks,
    /// The tick of the last id.
    last_tick: u64,
}

impl LayoutIds {
    /// Makes the generator that the flags describe.
    ///
    /// # Errors
    /// A flag does not fit the preset, or the clock is before its epoch.
    pub(super) fn new(args: &NewIdArgs, preset: &IdPreset) -> anyhow::Result<Self> {
        let scheme = preset.scheme(args.epoch)?;
        let layout = scheme.layout();
        let worker = find_worker(args, layout.bits_of("worker"))?;
        let dc = args.dc.unwrap_or_default();
        let splicer = Splicer::new(layout, dc, worker, preset.seq_min)?;
        let (clock, now_ms) = (SystemTicks(scheme.scale()), now().as_millis() as u64);
        let Some(begun_tick) = clock.0.tick_at(now_ms) else {
            bail!(bad_input(
                "--epoch is after the time now; use for example 2026-01-01"
            ));
        };
        layout.check_life(scheme.scale(), now_ms)?;
        while clock.tick() <= begun_tick {
            clock.wait(1);
        }
        let policy = args.policy.unwrap_or(default_policy(preset.name));
        let start = match preset.name {
            "leaf" => SequenceStart::Random {
                below: LEAF_START_BELOW,
                key: worker.into(),
            },
            _ => SequenceStart::Zero,
        };
        let first_lane = match policy {
            PolicyFlag::Timelines => rand::random(),
            _ => 0,
        };
        Ok(Self {
            generator: Clocked::new(splicer.grid(), start, policy, first_lane),
            splicer,
            clock,
            last_tick: 0,
        })
    }

    /// Returns the next id; waits for the clock as the policy has it.
    ///
    /// # Errors
    /// The policy rejects the clock, or the time of the layout has ended.
    pub(super) fn next(&mut self) -> anyhow::Result<u64> {
        let run = self.generator.take_waiting(NonZeroU32::MIN, &self.clock)?;
        self.last_tick = self.splicer.grid().tick_of(run.first);
        let random = rand::random::<u64>() & self.splicer.random_mask();
        Ok(self.splicer.id(run.lane, run.first) ^ random)
    }
}

impl Drop for LayoutIds {
    fn drop(&mut self) {
        if self.last_tick > self.clock.tick() {
            let until = format_utc_ms(self.clock.0.unix_ms_of(self.last_tick + 1));
            log::print_warning(format_args!(
                "the last id is ahead of the clock: another process of this worker may repeat ids \
                 if it starts before {until}; wait until then"
            ));
        }
    }
}

/// Returns what the system of a preset does while its clock is behind.
fn default_policy(preset: &str) -> PolicyFlag {
    match preset {
        "twitter" | "uidgenerator" => PolicyFlag::Refuse,
        "leaf" => PolicyFlag::Wait,
        "uidgenerator-cached" => PolicyFlag::Ahead,
        "rollbacks" => PolicyFlag::RollbackBits,
        "timelines" => PolicyFlag::Timelines,
        _ => PolicyFlag::Hold,
    }
}

impl ClockPolicy for PolicyFlag {
    fn reach(&self, now: u64, last_tick: u64, has_waited: bool) -> Result<u64, Rejection> {
        match self {
            Self::Refuse => Refuse.reach(now, last_tick, has_waited),
            Self::Wait => WAIT.reach(now, last_tick, has_waited),
            Self::Hold => Hold.reach(now, last_tick, has_waited),
            Self::Ahead => AHEAD.reach(now, last_tick, has_waited),
            Self::RollbackBits => ROLLBACK_BITS.reach(now, last_tick, has_waited),
            Self::Timelines => TIMELINES.reach(now, last_tick, has_waited),
        }
    }
}

/// The clock of the system in ticks.
struct SystemTicks(TickScale);

impl TickClock for SystemTicks {
    fn tick(&self) -> u64 {
        let tick = self.0.tick_at(now().as_millis() as u64);
        tick.unwrap_or_default()
    }

    fn wait(&self, ticks: u64) -> bool {
        let wait_ms = ticks.saturating_mul(self.0.unit_ms());
        thread::sleep(Duration::from_millis(wait_ms));
        true
    }
}
