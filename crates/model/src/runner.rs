//! Runs checks and prints one table for each model.

use crate::checker::{CheckOutcome, CheckedScenario, check_removal, find_scenario};
use crate::grants::grant_scenario::{GRANT_SCENARIOS, deep_grant_scenarios};
use crate::rules::Rule;
use crate::rules::rule_removals::{RULE_REMOVALS, RuleRemoval};
use crate::scenario::deep_scenarios::deep_scenarios;
use crate::scenario::table::SCENARIOS;

/// Options of a run: what to check, and how to print it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Use larger bounds for the protocol as designed.
    pub deep: bool,
    /// Check only the scenario with this name.
    pub scenario: Option<String>,
    /// Print the schedule of each counterexample.
    pub schedules: bool,
}

/// Checks each protocol as designed in every scenario, and every removal of rules. Prints one table
/// for each model to stdout. Returns whether every outcome is the expected one.
///
/// # Errors
/// No scenario has the name in the options.
pub fn run_checks(options: &Options) -> Result<bool, String> {
    if let Some(name) = &options.scenario {
        let unknown = || format!("no scenario is named {name}; docs/dev/model.md lists them");
        find_scenario(name).ok_or_else(unknown)?;
    }
    let (sequences, grants) = match options.deep {
        true => (deep_scenarios(), deep_grant_scenarios()),
        false => (SCENARIOS.to_vec(), GRANT_SCENARIOS.to_vec()),
    };
    let are_sequences_expected = run_table("sequences", &sequences, options);
    let are_grants_expected = run_table("grants", &grants, options);
    Ok(are_sequences_expected && are_grants_expected)
}

/// Checks the selected scenarios of one model, with all rules and without some. Prints one table.
/// Returns whether every outcome is the expected one.
fn run_table<S: CheckedScenario>(model: &str, scenarios: &[S], options: &Options) -> bool {
    let is_selected = |scenario: &&S| {
        let only = options.scenario.as_deref();
        only.is_none_or(|only| only == scenario.name())
    };
    let selected: Vec<&S> = scenarios.iter().filter(is_selected).collect();
    if selected.is_empty() {
        return true;
    }
    let mut all_expected = true;
    println!(
        "{:<44} {:<12} {:<12} {:>9} {:>5} {:>8}",
        format!("{model} without"),
        "scenario",
        "result",
        "states",
        "steps",
        "seconds"
    );
    for scenario in &selected {
        let outcome = scenario.check(&[], None);
        let is_complete = outcome.is_complete();
        print_outcome(&[], scenario.name(), &outcome, is_complete, options);
        all_expected &= is_complete;
    }
    let is_shown = |removal: &&RuleRemoval| selected.iter().any(|it| it.name() == removal.scenario);
    for removal in RULE_REMOVALS.iter().filter(is_shown) {
        if let Some((outcome, is_expected)) = check_removal(removal) {
            let (removed, scenario) = (removal.rules, removal.scenario);
            print_outcome(removed, scenario, &outcome, is_expected, options);
            all_expected &= is_expected;
        }
    }
    all_expected
}

/// Prints the line of one check: the protocol without the removed rules, in one scenario.
fn print_outcome(
    removed: &[Rule],
    scenario: &str,
    outcome: &CheckOutcome,
    is_expected: bool,
    options: &Options,
) {
    let (without, holds) = if removed.is_empty() {
        (String::from("-"), "holds")
    } else {
        (format!("{removed:?}"), "redundant")
    };
    let (result, steps) = match (&outcome.broken, outcome.unreached.first()) {
        (Some((promise, schedule)), _) => (promise.name(), schedule.len()),
        (None, Some(situation)) if removed.is_empty() => (*situation, outcome.depth),
        (None, _) => (holds, outcome.depth),
    };
    let (states, seconds) = (outcome.states, outcome.duration.as_secs_f64());
    let verdict = if is_expected { "" } else { "  NOT AS EXPECTED" };
    println!(
        "{without:<44} {scenario:<12} {result:<12} {states:>9} {steps:>5} {seconds:>8.2}{verdict}"
    );
    if let Some((_, schedule)) = &outcome.broken
        && (options.schedules || !is_expected)
    {
        schedule.iter().for_each(|action| println!("    {action}"));
    }
}
