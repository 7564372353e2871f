//! Selects scenarios and runs each on a thread of its own.

use std::any::Any;
use std::pin::Pin;
use std::thread;
use std::time::{Duration, Instant};

use seqsvr_tests::scenario::{ALL, ClusterScenario, MEASURED_SCENARIOS, ScenarioOutcome};
use tokio::runtime;

/// Time of a scenario. A scenario that takes longer has failed.
pub(super) const SCENARIO_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Time for which a run waits for blocking calls that its scenario left behind.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// One run of a scenario.
#[derive(Debug)]
pub(super) struct ScenarioRun {
    /// The name of the scenario, and the round if there are several.
    pub(super) name: String,
    /// Time of the run.
    pub(super) took: Duration,
    /// The outcome of the scenario, or the text of its panic in one line.
    pub(super) verdict: Result<ScenarioOutcome, String>,
}

/// Returns the names and descriptions of the scenarios, one per line.
pub fn list_scenarios() -> String {
    let width = all_scenarios().map(|s| s.name.len()).max();
    let width = width.unwrap_or_default();
    let to_line = |s: &ClusterScenario| format!("{:width$}  {}\n", s.name, s.about);
    all_scenarios().map(to_line).collect()
}

/// Returns all scenarios, those that judge measurements last.
pub(super) fn all_scenarios() -> impl Iterator<Item = &'static ClusterScenario> {
    ALL.iter().chain(MEASURED_SCENARIOS)
}

/// Returns the scenarios with these names, or all scenarios if there are no names.
///
/// # Errors
/// No scenario has one of the names. The text lists the scenarios.
pub(super) fn select_scenarios(names: &[String]) -> Result<Vec<ClusterScenario>, String> {
    let is_unknown = |name: &&String| all_scenarios().all(|s| s.name != **name);
    if let Some(unknown) = names.iter().find(is_unknown) {
        let list = list_scenarios();
        return Err(format!(
            "no scenario has the name {unknown}; choose one of:\n{list}"
        ));
    }
    let is_selected = |s: &&ClusterScenario| names.is_empty() || names.iter().any(|n| n == s.name);
    Ok(all_scenarios().filter(is_selected).copied().collect())
}

/// Runs all scenarios, for the given number of rounds.
pub(super) fn run_all(scenarios: &[ClusterScenario], rounds: u32) -> Vec<ScenarioRun> {
    let mut runs = Vec::new();
    for round in 1..=rounds {
        for scenario in scenarios {
            let name = match rounds {
                1 => scenario.name.to_owned(),
                _ => format!("{} {round}/{rounds}", scenario.name),
            };
            eprintln!("\n== {name}: {}", scenario.about);
            let started = Instant::now();
            let verdict = run_one(scenario.name, SCENARIO_TIMEOUT, scenario.run);
            runs.push(ScenarioRun {
                name,
                took: started.elapsed(),
                verdict,
            });
        }
    }
    runs
}

/// Runs a scenario on a thread and a runtime of its own. A panic ends the thread only, and no task
/// of a scenario continues while the next one runs.
pub(super) fn run_one(
    name: &str,
    timeout: Duration,
    start: impl FnOnce() -> Pin<Box<dyn Future<Output = ScenarioOutcome>>> + Send + 'static,
) -> Result<ScenarioOutcome, String> {
    let run = move || -> Result<ScenarioOutcome, String> {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start a runtime: {error}"))?;
        let outcome = runtime.block_on(async {
            let mut scenario = start();
            tokio::select! {
                outcome = &mut scenario => outcome,
                // A panic, so that the servers of the scenario end, and their logs are printed, as
                // in any other failure.
                () = tokio::time::sleep(timeout) => panic!("not over after {timeout:?}"),
            }
        });
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        match outcome.missed_limits.is_empty() {
            true => Ok(outcome),
            false => Err(format!("missed: {}", outcome.missed_limits.join("; "))),
        }
    };
    let thread = thread::Builder::new().name(name.to_owned());
    let started = thread
        .spawn(run)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    started
        .join()
        .unwrap_or_else(|panic| Err(panic_text(&*panic)))
}

/// Returns the text of a panic in one line. The first line of a failed `assert_eq` alone does not
/// show the values.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a panic without a text");
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
