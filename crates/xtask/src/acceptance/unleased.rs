//! Acceptance of strict mode alone: the scenarios on a build whose owners do not check their lease
//! (`--cfg unleased`).
//!
//! Invariant: a run proves nothing unless that build is really broken. Therefore an owner is first
//! deposed with namespaces that are *not* strict, and the exact check must find a violation; a
//! failure of another kind does not count. Then every scenario must pass with all namespaces
//! strict.

use std::time::Instant;

use seqsvr_test_support::history::VIOLATION_TEXT;
use seqsvr_test_support::{build_variant, process};
use seqsvr_tests::scenario::faults::deposed_owner::deposed_owner;
use seqsvr_tests::scenario::{ClusterScenario, ScenarioOutcome};

use super::AcceptanceOptions;
use super::scenario_run::{SCENARIO_TIMEOUT, ScenarioRun, run_all, run_one, select_scenarios};
use super::table::format_table;

/// The scenario in which the check must find a violation when no namespace is strict.
const PLANTED: ClusterScenario = ClusterScenario {
    name: "deposed_owner, not strict",
    about: "the check must find a violation",
    run: || Box::pin(deposed_owner()),
};
/// Scenarios that are skipped, and why.
const SKIPPED: &[(&str, &str)] = &[
    (
        "dev",
        "one process that makes its own namespaces; it has a single owner",
    ),
    (
        "sprayers",
        "it measures times, and its calls are not strict",
    ),
];

/// Runs the planted fault and then the selected scenarios, prints the table, and returns whether
/// all have the expected outcome.
///
/// # Errors
/// No scenario has one of the names. The text lists the scenarios.
pub fn run_unleased(options: &AcceptanceOptions) -> Result<bool, String> {
    let selected = select_scenarios(&options.only)?;
    build_variant::set_unleased();
    process::release_binary();
    let mut runs = vec![run_planted()];
    build_variant::set_strict();
    let is_skipped = |s: &ClusterScenario| SKIPPED.iter().any(|(name, _)| *name == s.name);
    let strict: Vec<ClusterScenario> = selected
        .iter()
        .filter(|s| !is_skipped(s))
        .copied()
        .collect();
    runs.extend(run_all(&strict, options.rounds));
    print!("{}", format_table(&runs));
    for (name, why) in SKIPPED {
        println!("skipped: {name}: {why}");
    }
    Ok(runs.iter().all(|run| run.verdict.is_ok()))
}

/// Runs the planted fault. It passes if the check finds a violation.
fn run_planted() -> ScenarioRun {
    let started = Instant::now();
    eprintln!("\n== {}: {}", PLANTED.name, PLANTED.about);
    let verdict = run_one(PLANTED.name, SCENARIO_TIMEOUT, PLANTED.run);
    ScenarioRun {
        name: PLANTED.name.to_owned(),
        took: started.elapsed(),
        verdict: expect_violation(verdict),
    }
}

/// Inverts a verdict: it passes only if the exact check found a violation.
fn expect_violation(verdict: Result<ScenarioOutcome, String>) -> Result<ScenarioOutcome, String> {
    match verdict {
        Err(text) if text.starts_with(VIOLATION_TEXT) => {
            let mut outcome = ScenarioOutcome::default();
            outcome.note(format!("violation found, as expected: {text}"));
            Ok(outcome)
        }
        Err(text) => Err(format!("it failed, but not by the check: {text}")),
        Ok(_) => {
            Err("no violation found: the check would not find one in strict mode either".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenario_run::all_scenarios;
    use super::*;

    #[test]
    fn only_violation_of_the_check_is_expected() {
        assert!(expect_violation(Err(format!("{VIOLATION_TEXT}, see above"))).is_ok());
        let other = expect_violation(Err("3 calls failed".to_owned())).unwrap_err();
        assert!(other.contains("3 calls failed"), "{other}");
        assert!(expect_violation(Ok(ScenarioOutcome::default())).is_err());
    }

    #[test]
    fn skipped_scenarios_exist() {
        for (name, _) in SKIPPED {
            assert!(all_scenarios().any(|s| s.name == *name), "{name}");
        }
    }
}
