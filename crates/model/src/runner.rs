//! Runs checks and prints one table.

use crate::checker::{CheckOutcome, check_removal, check_scenario};
use crate::rules::Rule;
use crate::rules::rule_removals::RULE_REMOVALS;
use crate::scenario::deep_scenarios::deep_scenarios;
use crate::scenario::table::{SCENARIOS, find_scenario};

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

/// Checks the protocol as designed in every scenario, and every removal of rules. Prints one table
/// to stdout. Returns whether every outcome is the expected one.
///
/// # Errors
/// No scenario has the name in the options, or in the table of removals.
pub fn run_checks(options: &Options) -> Result<bool, String> {
    let unknown = |name: &str| format!("no scenario is named {name}; docs/dev/model.md lists them");
    if let Some(name) = &options.scenario {
        find_scenario(name).ok_or_else(|| unknown(name))?;
    }
    let is_selected = |name: &str| options.scenario.as_deref().is_none_or(|only| only == name);
    let scenarios = match options.deep {
        true => deep_scenarios(),
        false => SCENARIOS.to_vec(),
    };
    let mut all_expected = true;
    println!(
        "{:<44} {:<12} {:<12} {:>9} {:>5} {:>8}",
        "without", "scenario", "result", "states", "steps", "seconds"
    );
    for scenario in &scenarios {
        if is_selected(scenario.name) {
            let outcome = check_scenario(scenario, &[], None);
            let is_complete = outcome.is_complete();
            print_outcome(&[], scenario.name, &outcome, is_complete, options);
            all_expected &= is_complete;
        }
    }
    for removal in RULE_REMOVALS {
        if is_selected(removal.scenario) {
            let checked = check_removal(removal);
            let (outcome, is_expected) = checked.ok_or_else(|| unknown(removal.scenario))?;
            let (removed, scenario) = (removal.rules, removal.scenario);
            print_outcome(removed, scenario, &outcome, is_expected, options);
            all_expected &= is_expected;
        }
    }
    Ok(all_expected)
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
        schedule
            .iter()
            .for_each(|action| println!("    {action:?}"));
    }
}
