//! Runs many plans and prints totals.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::plan::Plan;
use crate::reached::{ReachedSeeds, find_gaps};
use crate::run::{Outcome, run_apart};

/// Minimum runs of a sweep that limits starved runs. Above it, a sweep fails if more than 1 of 20
/// runs starved.
const JUDGED_RUNS_MIN: u64 = 40;

/// How a sweep runs a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conduct {
    /// Prints every event.
    pub words: bool,
    /// Runs the plan twice and compares the hashes.
    pub twice: bool,
    /// Prints a line for a run that passed, too.
    pub tells: bool,
}

/// Totals over all runs.
#[derive(Default)]
pub struct Sweep {
    runs: AtomicU64,
    starved: AtomicU64,
    failed: AtomicU64,
    virtual_ms: AtomicU64,
    real_ms: AtomicU64,
    answered: AtomicU64,
    reached: Mutex<ReachedSeeds>,
}

impl Sweep {
    /// Runs plans in `jobs` threads until there are no more plans or the deadline passes.
    pub fn run_all(
        &self,
        plans: impl Fn(u64) -> Option<Plan> + Sync,
        jobs: usize,
        deadline: Option<Instant>,
        conduct: Conduct,
    ) {
        let next = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while deadline.is_none_or(|deadline| Instant::now() < deadline) {
                        let Some(plan) = plans(next.fetch_add(1, Relaxed)) else {
                            break;
                        };
                        self.run(&plan, conduct);
                    }
                });
            }
        });
    }

    /// Runs a plan. Runs it a second time if `conduct` requests that or the plan failed.
    pub fn run(&self, plan: &Plan, conduct: Conduct) {
        let first = run_apart(plan, conduct.words);
        let outcome = match first {
            Ok(outcome) => outcome,
            Err(text) => Outcome {
                broken: vec![text],
                ..Outcome::default()
            },
        };
        self.runs.fetch_add(1, Relaxed);
        self.virtual_ms.fetch_add(outcome.virtual_ms, Relaxed);
        self.real_ms
            .fetch_add(outcome.real.as_millis() as u64, Relaxed);
        self.answered.fetch_add(outcome.answered, Relaxed);
        for branch in outcome.reached.keys() {
            *self.reached.lock().entry(branch).or_default() += 1;
        }
        let mut broken = outcome.broken.clone();
        if conduct.twice || !broken.is_empty() {
            match run_apart(plan, conduct.words) {
                Ok(second) if second.hash == outcome.hash => {}
                Ok(_) => broken.push(String::from("not deterministic: another run of it differs")),
                Err(text) => broken.push(format!("not deterministic: another run failed: {text}")),
            }
        }
        if broken.is_empty() {
            if outcome.is_starved() {
                self.starved.fetch_add(1, Relaxed);
            }
            if conduct.tells {
                println!(
                    "seed {}: hash {:016x}, {} events, {} calls, {} answered, {} ms in {} ms",
                    plan.seed,
                    outcome.hash,
                    outcome.events,
                    outcome.calls,
                    outcome.answered,
                    outcome.virtual_ms,
                    outcome.real.as_millis()
                );
            }
            return;
        }
        self.failed.fetch_add(1, Relaxed);
        let mut text = format!("seed {} FAILED:\n", plan.seed);
        for line in &broken {
            text += &format!("  {line}\n");
        }
        for line in &outcome.last {
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
    pub fn report(&self, real: Duration, seeds_min: u64) -> ExitCode {
        let reached = self.reached.lock();
        for (branch, count) in reached.iter() {
            println!("{count:>9}  {branch}");
        }
        let (runs, failed) = (self.runs.load(Relaxed), self.failed.load(Relaxed));
        let starved = self.starved.load(Relaxed);
        let virtual_s = self.virtual_ms.load(Relaxed) as f64 / 1e3;
        let core_s = (self.real_ms.load(Relaxed) as f64 / 1e3).max(1e-3);
        println!(
            "{runs} seeds, {failed} failed, {starved} starved; {} answers; {virtual_s:.0} virtual seconds in {:.0} s, {:.1} a second of a core",
            self.answered.load(Relaxed),
            real.as_secs_f64(),
            virtual_s / core_s,
        );
        let counted = runs - starved;
        let mut reasons = Vec::new();
        if counted < seeds_min {
            reasons.push(format!("{counted} seeds are fewer than {seeds_min}"));
        }
        if runs >= JUDGED_RUNS_MIN && 20 * starved > runs {
            reasons.push(format!("{starved} of {runs} seeds starved"));
        }
        reasons.extend(find_gaps(&reached, counted));
        for reason in &reasons {
            println!("FAILED: {reason}");
        }
        match failed == 0 && reasons.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
