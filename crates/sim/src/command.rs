//! Command line of the simulation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use seqsvr_core::sim::{hash_text, mix_bits};

use crate::plan::{RunPlan, draw_plan};
use crate::planted_bugs::find_planted_bugs;
use crate::runner::{SeedSweep, SweepOptions, check_repeatability};

/// Run clusters in a simulated world
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Option<SimCommand>,
    /// Run the plan of one seed
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Print every event
    #[arg(long, global = true)]
    words: bool,
    /// Print the plan of the seed (JSON) and do not run it
    #[arg(long, requires = "seed")]
    plan: bool,
    /// Number of seeds to run [default: 100, or as many as fit into --seconds]
    #[arg(long, global = true)]
    seeds: Option<u64>,
    /// Seconds after which no more seeds are run
    #[arg(long, global = true)]
    seconds: Option<u64>,
    /// Minimum number of seeds; fail if fewer were run
    #[arg(long, global = true, default_value_t = 0)]
    seeds_min: u64,
    /// Text from which the seeds are drawn, such as a commit
    #[arg(long, global = true, default_value = "seqsvr")]
    base: String,
    /// Milliseconds of faults in a plan
    #[arg(long, global = true, default_value_t = 12_000)]
    faults_ms: u64,
    /// Number of runs at the same time
    #[arg(long, global = true, default_value_t = 2)]
    jobs: usize,
    /// Plant a bug; may be repeated
    #[arg(long, global = true)]
    plant: Vec<String>,
    /// Run each seed twice and compare
    #[arg(long)]
    twice: bool,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Search for every planted bug, or for one
    Planted {
        /// Name of the bug
        name: Option<String>,
    },
    /// Run a plan from a file (JSON)
    Repeat {
        /// Path of the file
        plan: PathBuf,
    },
    /// Run seeds in one process, in two, in two threads and under another environment, and compare
    Meta,
    /// Run the kept plans, compare five seeds as `meta` does, and run fresh seeds
    Check,
}

/// Directory of the plans that found a bug once.
const KEPT_PLANS_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/plans");
/// Number of seeds whose hashes `check` compares.
const COMPARED_SEEDS: u64 = 5;

/// Runs the command that the arguments of the process give.
pub fn run_command() -> ExitCode {
    let args = Args::parse();
    let result = match &args.command {
        Some(SimCommand::Planted { name }) => Ok(find_planted_bugs(
            name.as_deref(),
            &args.base,
            args.faults_ms,
        )),
        Some(SimCommand::Repeat { plan }) => args.repeat_plan(plan),
        Some(SimCommand::Meta) => check_repeatability(
            &args.base,
            args.seeds.unwrap_or(COMPARED_SEEDS),
            args.faults_ms,
        )
        .map(|()| ExitCode::SUCCESS),
        Some(SimCommand::Check) => args.run_check(),
        None => args.run_seeds(),
    };
    result.unwrap_or_else(|text| {
        eprintln!("{text}");
        ExitCode::from(2)
    })
}

impl Args {
    fn plan_for_seed(&self, seed: u64) -> RunPlan {
        RunPlan {
            planted: self.plant.clone(),
            ..draw_plan(seed, self.faults_ms)
        }
    }

    fn run_seeds(&self) -> Result<ExitCode, String> {
        if let (Some(seed), true) = (self.seed, self.plan) {
            let text = serde_json::to_string_pretty(&self.plan_for_seed(seed));
            println!("{}", text.map_err(|e| e.to_string())?);
            return Ok(ExitCode::SUCCESS);
        }
        let began = Instant::now();
        let deadline = self.seconds.map(|s| began + Duration::from_secs(s));
        let options = SweepOptions {
            prints_events: self.words,
            compares_hashes: self.twice,
            prints_passed: self.seed.is_some(),
        };
        let base = hash_text(&self.base);
        let seeds_default = if self.seconds.is_some() {
            u64::MAX
        } else {
            100
        };
        let seeds = self.seeds.unwrap_or(seeds_default);
        let plans = |n| match self.seed {
            Some(seed) => (n == 0).then(|| self.plan_for_seed(seed)),
            None => (n < seeds).then(|| self.plan_for_seed(mix_bits(base, n))),
        };
        let sweep = SeedSweep::default();
        sweep.run_plans(plans, self.jobs, deadline, options);
        Ok(sweep.print_report(began.elapsed(), self.seeds_min))
    }

    fn repeat_plan(&self, path: &Path) -> Result<ExitCode, String> {
        let plan = RunPlan {
            planted: self.plant.clone(),
            ..read_plan(path)?
        };
        let began = Instant::now();
        let sweep = SeedSweep::default();
        let options = SweepOptions {
            prints_events: self.words,
            compares_hashes: true,
            prints_passed: true,
        };
        sweep.run_and_count(&plan, options);
        Ok(sweep.print_report(began.elapsed(), 1))
    }

    fn run_check(&self) -> Result<ExitCode, String> {
        let began = Instant::now();
        let mut files: Vec<PathBuf> = std::fs::read_dir(KEPT_PLANS_DIR)
            .map_err(|e| format!("cannot list {KEPT_PLANS_DIR}: {e}"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        files.sort();
        let kept_plans: Vec<RunPlan> = files
            .iter()
            .map(|f| read_plan(f))
            .collect::<Result<_, _>>()?;
        let sweep = SeedSweep::default();
        let plans = |n: u64| kept_plans.get(n as usize).cloned();
        sweep.run_plans(plans, self.jobs, None, SweepOptions::default());
        if sweep.print_report(began.elapsed(), kept_plans.len() as u64) != ExitCode::SUCCESS {
            return Ok(ExitCode::FAILURE);
        }
        check_repeatability(&self.base, COMPARED_SEEDS, self.faults_ms)?;
        self.run_seeds()
    }
}

fn read_plan(path: &Path) -> Result<RunPlan, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{} is not a plan: {e}", path.display()))
}
