//! The command line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use parking_lot::Mutex;
use seqsvr_core::sim::{hash, mix};

use crate::plan::Plan;
use crate::planted::find_planted;
use crate::run::{Outcome, run_apart};

/// Runs clusters in a simulated world
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Runs the plan of one seed
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Prints every event
    #[arg(long)]
    words: bool,
    /// Runs so many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// Stops after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Fails if fewer seeds were run
    #[arg(long, default_value_t = 0)]
    seeds_min: u64,
    /// Text from which the seeds are drawn, a commit for instance
    #[arg(long, default_value = "seqsvr")]
    base: String,
    /// Milliseconds of faults in a plan
    #[arg(long, default_value_t = 12_000)]
    faults_ms: u64,
    /// Runs side by side
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Plants a bug
    #[arg(long)]
    plant: Vec<String>,
    /// Runs each seed twice and compares
    #[arg(long)]
    twice: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Looks for every planted bug, or for one
    Planted {
        /// The bug
        name: Option<String>,
    },
    /// Runs a plan from a file (JSON)
    Repeat {
        /// The file
        plan: PathBuf,
    },
}

/// Runs what the command line says.
pub fn run_command() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Command::Planted { name }) = &arguments.command {
        return find_planted(name.as_deref(), &arguments.base, arguments.faults_ms);
    }
    let plans: Box<dyn Fn(u64) -> Option<Plan> + Send + Sync> = match plan_source(&arguments) {
        Ok(plans) => plans,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    let sweep = Sweep::default();
    let began = Instant::now();
    let deadline = arguments
        .seconds
        .map(|seconds| began + Duration::from_secs(seconds));
    thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                while deadline.is_none_or(|deadline| Instant::now() < deadline) {
                    let n = sweep.next.fetch_add(1, Relaxed);
                    let Some(plan) = plans(n) else { break };
                    sweep.one(&plan, &arguments);
                }
            });
        }
    });
    sweep.report(began.elapsed(), arguments.seeds_min)
}

type PlanSource = Box<dyn Fn(u64) -> Option<Plan> + Send + Sync>;

fn plan_source(arguments: &Arguments) -> Result<PlanSource, String> {
    let planted = arguments.plant.clone();
    let faults_ms = arguments.faults_ms;
    if let Some(Command::Repeat { plan: path }) = &arguments.command {
        let text = std::fs::read_to_string(path)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        let plan: Plan = serde_json::from_str(&text)
            .map_err(|e| format!("{} is not a plan: {e}", path.display()))?;
        return Ok(Box::new(move |n| (n == 0).then(|| plan.clone())));
    }
    let (base, seed, seeds) = (hash(&arguments.base), arguments.seed, arguments.seeds);
    Ok(Box::new(move |n| {
        let seed = match seed {
            Some(seed) => (n == 0).then_some(seed)?,
            None => (n < seeds).then(|| mix(base, n))?,
        };
        Some(Plan {
            planted: planted.clone(),
            ..Plan::draw(seed, faults_ms)
        })
    }))
}

/// Sums over all runs.
#[derive(Default)]
struct Sweep {
    next: AtomicU64,
    runs: AtomicU64,
    starved: AtomicU64,
    failed: AtomicU64,
    virtual_ms: AtomicU64,
    real_ms: AtomicU64,
    answered: AtomicU64,
    reached: Mutex<BTreeMap<&'static str, u64>>,
}

impl Sweep {
    fn one(&self, plan: &Plan, arguments: &Arguments) {
        let first = run_apart(plan, arguments.words);
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
        for (branch, count) in &outcome.reached {
            *self.reached.lock().entry(branch).or_default() += count;
        }
        let mut broken = outcome.broken.clone();
        if arguments.twice || !broken.is_empty() {
            match run_apart(plan, arguments.words) {
                Ok(second) if second.hash == outcome.hash => {}
                Ok(_) => broken.push(String::from("not deterministic: another run of it differs")),
                Err(text) => broken.push(format!("not deterministic: another run failed: {text}")),
            }
        }
        if broken.is_empty() {
            if outcome.is_starved() {
                self.starved.fetch_add(1, Relaxed);
            }
            if arguments.seed.is_some() || arguments.command.is_some() {
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
            plan.seed, arguments.faults_ms
        );
        println!("{text}");
    }

    fn report(&self, real: Duration, seeds_min: u64) -> ExitCode {
        for (branch, count) in self.reached.lock().iter() {
            println!("{count:>9}  {branch}");
        }
        let (runs, failed) = (self.runs.load(Relaxed), self.failed.load(Relaxed));
        let virtual_s = self.virtual_ms.load(Relaxed) as f64 / 1e3;
        let core_s = (self.real_ms.load(Relaxed) as f64 / 1e3).max(1e-3);
        println!(
            "{runs} seeds, {failed} failed, {} starved; {} answers; {virtual_s:.0} virtual seconds in {:.0} s, {:.1} a second of a core",
            self.starved.load(Relaxed),
            self.answered.load(Relaxed),
            real.as_secs_f64(),
            virtual_s / core_s,
        );
        match failed == 0 && runs >= seeds_min {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
