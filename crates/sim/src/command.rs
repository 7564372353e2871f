//! Command line of the simulation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use seqsvr_core::sim::{hash, mix};

use crate::meta::check_repeatability;
use crate::plan::Plan;
use crate::planted::find_planted;
use crate::sweep::{Conduct, Sweep};

/// Runs clusters in a simulated world
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Runs the plan of one seed
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Prints every event
    #[arg(long, global = true)]
    words: bool,
    /// Prints the plan of the seed (JSON) and does not run it
    #[arg(long, requires = "seed")]
    plan: bool,
    /// Runs so many seeds [default: 100, or as many as fit into --seconds]
    #[arg(long, global = true)]
    seeds: Option<u64>,
    /// Stops after so many seconds
    #[arg(long, global = true)]
    seconds: Option<u64>,
    /// Fails if fewer seeds were run
    #[arg(long, global = true, default_value_t = 0)]
    seeds_min: u64,
    /// Text from which the seeds are drawn, a commit for instance
    #[arg(long, global = true, default_value = "seqsvr")]
    base: String,
    /// Milliseconds of faults in a plan
    #[arg(long, global = true, default_value_t = 12_000)]
    faults_ms: u64,
    /// Runs side by side
    #[arg(long, global = true, default_value_t = 2)]
    jobs: usize,
    /// Plants a bug
    #[arg(long, global = true)]
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
    /// Runs seeds in one process, in two, in two threads and under another environment, and
    /// compares
    Meta,
    /// Runs the kept plans, compares five seeds as `meta` does, and runs fresh seeds
    Check,
}

/// Directory of the plans that found a bug once.
const KEPT_PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/plans");
/// Number of seeds whose hashes `check` compares.
const COMPARED: u64 = 5;

/// Runs the command that the arguments of the process give.
pub fn run_command() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Some(Command::Planted { name }) => Ok(find_planted(
            name.as_deref(),
            &arguments.base,
            arguments.faults_ms,
        )),
        Some(Command::Repeat { plan }) => arguments.repeat(plan),
        Some(Command::Meta) => check_repeatability(
            &arguments.base,
            arguments.seeds.unwrap_or(COMPARED),
            arguments.faults_ms,
        )
        .map(|()| ExitCode::SUCCESS),
        Some(Command::Check) => arguments.check(),
        None => arguments.run_seeds(),
    };
    done.unwrap_or_else(|text| {
        eprintln!("{text}");
        ExitCode::from(2)
    })
}

impl Arguments {
    fn plan_of(&self, seed: u64) -> Plan {
        Plan {
            planted: self.plant.clone(),
            ..Plan::draw(seed, self.faults_ms)
        }
    }

    fn run_seeds(&self) -> Result<ExitCode, String> {
        if let (Some(seed), true) = (self.seed, self.plan) {
            let text = serde_json::to_string_pretty(&self.plan_of(seed));
            println!("{}", text.map_err(|e| e.to_string())?);
            return Ok(ExitCode::SUCCESS);
        }
        let began = Instant::now();
        let deadline = self.seconds.map(|s| began + Duration::from_secs(s));
        let conduct = Conduct {
            words: self.words,
            twice: self.twice,
            tells: self.seed.is_some(),
        };
        let base = hash(&self.base);
        let usual = if self.seconds.is_some() {
            u64::MAX
        } else {
            100
        };
        let seeds = self.seeds.unwrap_or(usual);
        let plans = |n| match self.seed {
            Some(seed) => (n == 0).then(|| self.plan_of(seed)),
            None => (n < seeds).then(|| self.plan_of(mix(base, n))),
        };
        let sweep = Sweep::default();
        sweep.run_all(plans, self.jobs, deadline, conduct);
        Ok(sweep.report(began.elapsed(), self.seeds_min))
    }

    fn repeat(&self, path: &Path) -> Result<ExitCode, String> {
        let plan = Plan {
            planted: self.plant.clone(),
            ..read_plan(path)?
        };
        let began = Instant::now();
        let sweep = Sweep::default();
        let conduct = Conduct {
            words: self.words,
            twice: true,
            tells: true,
        };
        sweep.run(&plan, conduct);
        Ok(sweep.report(began.elapsed(), 1))
    }

    fn check(&self) -> Result<ExitCode, String> {
        let began = Instant::now();
        let mut files: Vec<PathBuf> = std::fs::read_dir(KEPT_PLANS)
            .map_err(|e| format!("cannot list {KEPT_PLANS}: {e}"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        files.sort();
        let kept: Vec<Plan> = files
            .iter()
            .map(|f| read_plan(f))
            .collect::<Result<_, _>>()?;
        let sweep = Sweep::default();
        let plans = |n: u64| kept.get(n as usize).cloned();
        sweep.run_all(plans, self.jobs, None, Conduct::default());
        if sweep.report(began.elapsed(), kept.len() as u64) != ExitCode::SUCCESS {
            return Ok(ExitCode::FAILURE);
        }
        check_repeatability(&self.base, COMPARED, self.faults_ms)?;
        self.run_seeds()
    }
}

fn read_plan(path: &Path) -> Result<Plan, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} is not a plan: {e}", path.display()))
}
