//! Runs many plans and prints totals.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::branch_coverage::{ReachedSeeds, find_missed_branches};
use super::plan_runner::run_plan_in_thread;
use crate::plan::RunPlan;
use crate::world::RunOutcome;

/// Minimum runs of a sweep that limits starved runs. Above it, a sweep fails if more than 1 of 20
/// runs starved.
const STARVATION_RUNS_MIN: u64 = 40;

/// Options of a sweep: how it runs a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct SweepOptions {
    /// Prints every event.
    pub prints_events: bool,
    /// Runs the plan twice and compares the hashes.
    pub compares_hashes: bool,
    /// Prints a line for a run that passed, too.
    pub prints_passed: bool,
}

/// Totals over all runs.
#[derive(Default)]
pub struct SeedSweep {
    runs: AtomicU64,
    starved_runs: AtomicU64,
    failed_runs: AtomicU64,
    simulated_ms: AtomicU64,
    real_ms: AtomicU64,
    answered_calls: AtomicU64,
    ids: AtomicU64,
    reached: Mutex<ReachedSeeds>,
}

impl SeedSweep {
    /// Runs plans in `jobs` threads until there are no more plans or the deadline passes.
    pub fn run_plans(
        &self,
        plans: impl Fn(u64) -> Option<RunPlan> + Sync,
        jobs: usize,
        deadline: Option<Instant>,
        options: SweepOptions,
    ) {
        let next_plan = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while deadline.is_none_or(|deadline| Instant::now() < deadline) {
                        let Some(plan) = plans(next_plan.fetch_add(1, Relaxed)) else {
                            break;
                        };
                        self.run_and_count(&plan, options);
                    }
                });
            }
        });
    }

    /// Runs a plan. Runs it a second time if `options` requests that or the plan failed.
    pub fn run_and_count(&self, plan: &RunPlan, options: SweepOptions) {
        let first = run_plan_in_thread(plan, options.prints_events);
        let outcome = match first {
            Ok(outcome) => outcome,
            Err(text) => RunOutcome {
                broken_rules: vec![text],
                ..RunOutcome::default()
            },
        };
        self.runs.fetch_add(1, Relaxed);
        self.simulated_ms.fetch_add(outcome.simulated_ms, Relaxed);
        self.real_ms
            .fetch_add(outcome.real_time.as_millis() as u64, Relaxed);
        self.answered_calls
            .fetch_add(outcome.answered_calls, Relaxed);
        self.ids.fetch_add(outcome.id_count, Relaxed);
        for branch in outcome.reached_branches.keys() {
            *self.reached.lock().entry(branch).or_default() += 1;
        }
        let mut broken_rules = outcome.broken_rules.clone();
        if options.compares_hashes || !broken_rules.is_empty() {
            match run_plan_in_thread(plan, options.prints_events) {
                Ok(second) if second.hash == outcome.hash => {}
                Ok(_) => {
                    broken_rules.push(String::from("not deterministic: another run of it differs"))
                }
                Err(text) => {
                    broken_rules.push(format!("not deterministic: another run failed: {text}"))
                }
            }
        }
        if broken_rules.is_empty() {
            if outcome.is_starved() {
                self.starved_runs.fetch_add(1, Relaxed);
            }
            if options.prints_passed {
                println!(
                    "seed {}: hash {:016x}, {} events, {} calls, {} answered, {} ms in {} ms",
                    plan.seed,
                    outcome.hash,
                    outcome.event_count,
                    outcome.call_count,
                    outcome.answered_calls,
                    outcome.simulated_ms,
                    outcome.real_time.as_millis()
                );
            }
            return;
        }
        self.failed_runs.fetch_add(1, Relaxed);
        let mut text = format!("seed {} FAILED:\n", plan.seed);
        for line in &broken_rules {
            text += &format!("  {line}\n");
        }
        for line in &outcome.end_state {
            text += &format!("  {line}\n");
        }
        for line in &outcome.last_events {
            text += &format!("    {line}\n");
        }
        text += &format!(
            "  repeat: cargo xtask sim --seed {} --faults-ms {}",
            plan.seed, plan.heal_at_ms
        );
        println!("{text}");
    }

    /// Prints the totals, and how many seeds reached each branch.
    ///
    /// Returns a failure if a run failed, if fewer than `seeds_min` runs did not starve, if too
    /// many starved, or if a branch was not reached.
    pub fn print_report(&self, real_time: Duration, seeds_min: u64) -> ExitCode {
        let reached = self.reached.lock();
        for (branch, count) in reached.iter() {
            println!("{count:>9}  {branch}");
        }
        let (runs, failed_runs) = (self.runs.load(Relaxed), self.failed_runs.load(Relaxed));
        let starved_runs = self.starved_runs.load(Relaxed);
        let simulated_s = self.simulated_ms.load(Relaxed) as f64 / 1e3;
        let core_seconds = (self.real_ms.load(Relaxed) as f64 / 1e3).max(1e-3);
        println!(
            "{runs} seeds, {failed_runs} failed, {starved_runs} starved; {} answers, {} ids; {simulated_s:.0} virtual seconds in {:.0} s, {:.1} a second of a core",
            self.answered_calls.load(Relaxed),
            self.ids.load(Relaxed),
            real_time.as_secs_f64(),
            simulated_s / core_seconds,
        );
        let useful_runs = runs - starved_runs;
        let mut reasons = Vec::new();
        if useful_runs < seeds_min {
            reasons.push(format!("{useful_runs} seeds are fewer than {seeds_min}"));
        }
        if runs >= STARVATION_RUNS_MIN && 20 * starved_runs > runs {
            reasons.push(format!("{starved_runs} of {runs} seeds starved"));
        }
        reasons.extend(find_missed_branches(&reached, useful_runs));
        for reason in &reasons {
            println!("FAILED: {reason}");
        }
        match failed_runs == 0 && reasons.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
