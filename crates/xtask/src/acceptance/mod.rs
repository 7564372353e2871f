//! Acceptance: the scenarios of `seqsvr-tests`, one after the other on the release binary, and one
//! table at the end.
//!
//! Invariant: a scenario that panics or does not end is a failed verdict. It never ends the run:
//! the later scenarios run, and the table is printed in every case.

mod scenario_run;
mod table;
#[cfg(test)]
mod tests;
mod unleased;

use std::time::{Duration, Instant};

use scenario_run::{SCENARIO_TIMEOUT, ScenarioRun, run_all, run_one};
use seqsvr_test_support::{build_variant, process};

pub use scenario_run::list_scenarios;
pub use unleased::run_unleased;

/// Options of an acceptance run.
#[derive(Debug)]
pub struct AcceptanceOptions {
    /// Names of the scenarios to run; empty: all.
    pub only: Vec<String>,
    /// Number of runs of each scenario.
    pub rounds: u32,
}

/// Runs the selected scenarios, prints the table, and returns whether all passed.
///
/// # Errors
/// No scenario has one of the names. The text lists the scenarios.
pub fn run_scenarios(options: &AcceptanceOptions) -> Result<bool, String> {
    let selected = scenario_run::select_scenarios(&options.only)?;
    build_variant::set_rebuilt();
    // Built before the first scenario, so that its time does not include the build.
    process::release_binary();
    process::upgrade_binary();
    process::id_holder_binary();
    let runs = run_all(&selected, options.rounds);
    print!("{}", table::format_table(&runs));
    Ok(runs.iter().all(|run| run.verdict.is_ok()))
}

/// Runs the soak for this time, prints its row, and returns whether it passed.
pub fn run_soak(time: Duration) -> bool {
    process::release_binary();
    let started = Instant::now();
    let verdict = run_one("soak", time + SCENARIO_TIMEOUT, move || {
        Box::pin(seqsvr_tests::scenario::soak::soak(time))
    });
    let run = ScenarioRun {
        name: "soak".to_owned(),
        took: started.elapsed(),
        verdict,
    };
    let passed = run.verdict.is_ok();
    print!("{}", table::format_table(&[run]));
    passed
}
