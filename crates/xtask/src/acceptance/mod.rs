//! Acceptance: the scenarios of `seqsvr-tests`, one after the other on the release binary, one
//! table at the end.
//!
//! Invariant: a scenario that panics or does not end is a failed verdict, never the end of the run;
//! the runs after it take place, and the table is printed whatever happened.

mod table;
#[cfg(test)]
mod tests;
mod unleased;

use std::any::Any;
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use seqsvr_test_support::{build_variant, process};
use seqsvr_tests::scenario::{ALL, ClusterScenario, MEASURED_SCENARIOS, ScenarioOutcome};
use tokio::runtime;

pub use unleased::unleased;

/// A scenario that runs longer has failed.
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// How long a run's left-over blocking calls are waited for.
const WIND_UP: Duration = Duration::from_secs(10);

/// What is run.
#[derive(Debug)]
pub struct Options {
    /// Names of the scenarios to run; empty: all.
    pub only: Vec<String>,
    /// How often each is run.
    pub rounds: u32,
}

/// One run of a scenario.
#[derive(Debug)]
struct Row {
    /// The scenario's name, and the round if there are several.
    name: String,
    took: Duration,
    /// What it saw, or what its panic said, in one line.
    verdict: Result<ScenarioOutcome, String>,
}

/// Name and purpose of each scenario, one a line.
pub fn list() -> String {
    let width = scenarios().map(|s| s.name.len()).max().unwrap_or_default();
    let line = |s: &ClusterScenario| format!("{:width$}  {}\n", s.name, s.about);
    scenarios().map(line).collect()
}

fn scenarios() -> impl Iterator<Item = &'static ClusterScenario> {
    ALL.iter().chain(MEASURED_SCENARIOS)
}

/// Runs what was chosen, prints the table, and says whether all passed.
///
/// # Errors
/// A name that no scenario has; the text lists the names.
pub fn run(options: &Options) -> Result<bool, String> {
    let chosen = chosen(&options.only)?;
    build_variant::set_rebuilt();
    // Built before the first scenario, so that its time is its own.
    process::release_binary();
    process::upgrade_binary();
    let rows = run_all(&chosen, options.rounds);
    print!("{}", table::render(&rows));
    Ok(rows.iter().all(|row| row.verdict.is_ok()))
}

/// Runs the soak for this long, prints its row, and says whether it passed.
pub fn soak(time: Duration) -> bool {
    process::release_binary();
    let began = Instant::now();
    let verdict = run_one("soak", time + LIMIT, move || {
        Box::pin(seqsvr_tests::scenario::soak::soak(time))
    });
    let row = Row {
        name: "soak".to_owned(),
        took: began.elapsed(),
        verdict,
    };
    let passed = row.verdict.is_ok();
    print!("{}", table::render(&[row]));
    passed
}

fn chosen(only: &[String]) -> Result<Vec<ClusterScenario>, String> {
    if let Some(unknown) = only.iter().find(|o| scenarios().all(|s| s.name != **o)) {
        return Err(format!(
            "no scenario is named {unknown}; there are:\n{}",
            list()
        ));
    }
    let is_chosen = |s: &&ClusterScenario| only.is_empty() || only.iter().any(|o| o == s.name);
    Ok(scenarios().filter(is_chosen).copied().collect())
}

fn run_all(scenarios: &[ClusterScenario], rounds: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for round in 1..=rounds {
        for scenario in scenarios {
            let name = match rounds {
                1 => scenario.name.to_owned(),
                _ => format!("{} {round}/{rounds}", scenario.name),
            };
            eprintln!("\n== {name}: {}", scenario.about);
            let began = Instant::now();
            let verdict = run_one(scenario.name, LIMIT, scenario.run);
            rows.push(Row {
                name,
                took: began.elapsed(),
                verdict,
            });
        }
    }
    rows
}

/// Runs it on a thread and a runtime of its own: a panic ends the thread only, and no task of a
/// scenario lives on in the next.
fn run_one(
    name: &str,
    limit: Duration,
    start: impl FnOnce() -> Pin<Box<dyn Future<Output = ScenarioOutcome>>> + Send + 'static,
) -> Result<ScenarioOutcome, String> {
    let run = move || -> Result<ScenarioOutcome, String> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))?;
        let outcome = runtime.block_on(async {
            let mut run = start();
            tokio::select! {
                outcome = &mut run => outcome,
                // A panic, so that the servers it started end as in any other failure, with their
                // logs.
                () = tokio::time::sleep(limit) => panic!("not over after {limit:?}"),
            }
        });
        runtime.shutdown_timeout(WIND_UP);
        match outcome.missed_limits.is_empty() {
            true => Ok(outcome),
            false => Err(format!("missed: {}", outcome.missed_limits.join("; "))),
        }
    };
    let thread = thread::Builder::new().name(name.to_owned());
    let started = thread
        .spawn(run)
        .map_err(|error| format!("no thread: {error}"))?;
    started.join().unwrap_or_else(|panic| Err(words(&*panic)))
}

/// What a panic said, in one line: the first line of a failed `assert_eq` alone says nothing.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a panic without words");
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
