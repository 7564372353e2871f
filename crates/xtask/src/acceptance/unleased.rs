//! Acceptance of strict mode alone: the scenarios on a build whose owners never look at their lease
//! (`--cfg unleased`).
//!
//! Invariant: it proves nothing unless that build is really broken. So first an owner is
//! deposed with namespaces that are *not* strict, and the exact check must convict it; a failure of
//! another kind is no conviction. Then every scenario must pass with all namespaces strict.

use std::time::Instant;

use seqsvr_test_support::history::VIOLATION_TEXT;
use seqsvr_test_support::{build_variant, process};
use seqsvr_tests::scenario::faults::deposed_owner::deposed_owner;
use seqsvr_tests::scenario::{ClusterScenario, ScenarioOutcome};

use super::{LIMIT, Options, Row, chosen, run_all, run_one, table};

/// The scenario that must be convicted when nothing is strict.
const PLANTED: ClusterScenario = ClusterScenario {
    name: "deposed_owner, not strict",
    about: "it must be convicted",
    run: || Box::pin(deposed_owner()),
};
/// Not run, and why.
const SKIPPED: &[(&str, &str)] = &[
    (
        "dev",
        "one process with namespaces of its own making; no owner but one",
    ),
    (
        "sprayers",
        "a figure of times, and of calls that are not strict",
    ),
];

/// Runs the planted fault and then what was chosen, prints the table, and says whether all came out
/// as it must.
///
/// # Errors
/// As [`super::run`].
pub fn unleased(options: &Options) -> Result<bool, String> {
    let chosen = chosen(&options.only)?;
    build_variant::set_unleased();
    process::release_binary();
    let mut rows = vec![planted()];
    build_variant::set_strict();
    let is_skipped = |s: &ClusterScenario| SKIPPED.iter().any(|(name, _)| *name == s.name);
    let strict: Vec<ClusterScenario> = chosen.iter().filter(|s| !is_skipped(s)).copied().collect();
    rows.extend(run_all(&strict, options.rounds));
    print!("{}", table::render(&rows));
    for (name, why) in SKIPPED {
        println!("skipped: {name}: {why}");
    }
    Ok(rows.iter().all(|row| row.verdict.is_ok()))
}

/// The row of the planted fault: passed if the check convicts.
fn planted() -> Row {
    let began = Instant::now();
    eprintln!("\n== {}: {}", PLANTED.name, PLANTED.about);
    let seen = run_one(PLANTED.name, LIMIT, PLANTED.run);
    Row {
        name: PLANTED.name.to_owned(),
        took: began.elapsed(),
        verdict: convicted(seen),
    }
}

/// Turns a verdict round: only the exact check convicts.
fn convicted(verdict: Result<ScenarioOutcome, String>) -> Result<ScenarioOutcome, String> {
    match verdict {
        Err(words) if words.starts_with(VIOLATION_TEXT) => {
            let mut outcome = ScenarioOutcome::default();
            outcome.note(format!("convicted, as it must be: {words}"));
            Ok(outcome)
        }
        Err(words) => Err(format!("it failed, but not by the check: {words}")),
        Ok(_) => Err("not convicted: the check would not see it in strict mode either".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scenarios;
    use super::*;

    #[test]
    fn only_the_check_convicts() {
        assert!(convicted(Err(format!("{VIOLATION_TEXT}, see above"))).is_ok());
        let other = convicted(Err("3 calls failed".to_owned())).unwrap_err();
        assert!(other.contains("3 calls failed"), "{other}");
        assert!(convicted(Ok(ScenarioOutcome::default())).is_err());
    }

    #[test]
    fn what_is_skipped_exists() {
        for (name, _) in SKIPPED {
            assert!(scenarios().any(|s| s.name == *name), "{name}");
        }
    }
}
