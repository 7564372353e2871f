//! Runs checks and prints one table.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::rule_removals::{Expected, REMOVALS, Removal};
use crate::rules::{Rule, Rules};
use crate::scenario::{SCENARIOS, Scenario, deep};
use crate::world::{Action, Protocol};

/// What one check found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Distinct states visited.
    pub states: usize,
    /// Longest path looked at, in steps.
    pub depth: usize,
    /// Time it took.
    pub took: Duration,
    /// The first promise found broken, with the shortest schedule that breaks it.
    pub broken: Option<(&'static str, Vec<Action>)>,
    /// Situations that should have been reached and were not.
    pub unreached: Vec<&'static str>,
}

impl Outcome {
    /// Did the whole protocol hold and reach all it should?
    pub fn holds(&self) -> bool {
        self.broken.is_none() && self.unreached.is_empty()
    }
}

/// Checks one scenario without the removed rules: all of it, or up to the first counterexample
/// (to one promise, if named).
/// One thread, so that states and lengths repeat exactly and the schedule found is a shortest.
pub fn check(scenario: &Scenario, removed: &[Rule], promise: Option<&'static str>) -> Outcome {
    let begun = Instant::now();
    let model = Protocol {
        scenario: scenario.clone(),
        rules: Rules::without(removed),
    };
    let until = promise.map_or(HasDiscoveries::AnyFailures, |promise| {
        HasDiscoveries::AnyOf([promise].into())
    });
    let checker = model
        .checker()
        .threads(1)
        .finish_when(until)
        .spawn_bfs()
        .join();
    let found = checker.discoveries();
    let mut broken = None;
    let mut unreached = Vec::new();
    for property in checker.model().properties() {
        let path = found.get(property.name);
        if !property.expectation.discovery_is_failure() {
            if path.is_none() {
                unreached.push(property.name);
            }
        } else if let (Some(path), true) =
            (path, promise.is_none_or(|promise| promise == property.name))
        {
            broken = Some((property.name, path.clone().into_actions()));
        }
    }
    Outcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth() - 1,
        took: begun.elapsed(),
        broken,
        unreached,
    }
}

/// The scenario of that name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// Checks a removal against the table: the outcome, and whether it is the expected one.
pub fn check_removal(removal: &Removal) -> Option<(Outcome, bool)> {
    let scenario = scenario(removal.scenario)?;
    let promise = match removal.expected {
        Expected::Broken(promise) => Some(promise),
        Expected::Redundant(_) => None,
    };
    let outcome = check(scenario, removal.rules, promise);
    let as_expected = outcome.broken.is_some() == promise.is_some();
    Some((outcome, as_expected))
}

/// What to check and how to show it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Larger bounds for the full protocol.
    pub deep: bool,
    /// Only this scenario.
    pub scenario: Option<String>,
    /// Print the schedule of each counterexample.
    pub schedules: bool,
}

/// Checks the full protocol in every scenario and every removal, prints one table to stdout,
/// and says whether all came out as expected.
pub fn run(options: &Options) -> bool {
    let wanted = |name: &str| options.scenario.as_deref().is_none_or(|only| only == name);
    let full = if options.deep {
        deep()
    } else {
        SCENARIOS.to_vec()
    };
    let mut fine = true;
    println!(
        "{:<44} {:<12} {:<12} {:>9} {:>5} {:>8}",
        "without", "scenario", "result", "states", "steps", "seconds"
    );
    let mut line = |without: &str,
                    scenario: &str,
                    result: &str,
                    outcome: &Outcome,
                    as_expected: bool| {
        let steps = outcome
            .broken
            .as_ref()
            .map_or(outcome.depth, |(_, actions)| actions.len());
        let (states, seconds) = (outcome.states, outcome.took.as_secs_f64());
        let verdict = if as_expected { "" } else { "  NOT AS EXPECTED" };
        println!(
            "{without:<44} {scenario:<12} {result:<12} {states:>9} {steps:>5} {seconds:>8.2}{verdict}"
        );
        if let (Some((_, actions)), true) = (&outcome.broken, options.schedules || !as_expected) {
            actions.iter().for_each(|action| println!("    {action:?}"));
        }
        fine &= as_expected;
    };
    for scenario in full.iter().filter(|scenario| wanted(scenario.name)) {
        let outcome = check(scenario, &[], None);
        let result = match (&outcome.broken, outcome.unreached.first()) {
            (Some((promise, _)), _) => promise,
            (None, Some(unreached)) => unreached,
            (None, None) => "holds",
        };
        line("-", scenario.name, result, &outcome, outcome.holds());
    }
    for removal in REMOVALS.iter().filter(|removal| wanted(removal.scenario)) {
        let Some((outcome, as_expected)) = check_removal(removal) else {
            println!("no scenario is named {}", removal.scenario);
            return false;
        };
        let result = match outcome.broken {
            Some((promise, _)) => promise,
            None => "redundant",
        };
        line(
            &format!("{:?}", removal.rules),
            removal.scenario,
            result,
            &outcome,
            as_expected,
        );
    }
    fine
}
