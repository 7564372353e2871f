//! Checks of one scenario, with all rules or without some.

use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::protocol::Protocol;
use crate::rules::promise::Promise;
use crate::rules::rule_removals::RuleRemoval;
use crate::rules::{Rule, RuleSet};
use crate::scenario::Scenario;
use crate::scenario::table::find_scenario;
use crate::world::action::WorldAction;

/// Result of one check.
#[derive(Clone, Debug)]
pub(crate) struct CheckOutcome {
    /// Distinct states visited.
    pub(crate) states: usize,
    /// Steps of the longest path.
    pub(crate) depth: usize,
    /// Time of the check.
    pub(crate) duration: Duration,
    /// The first promise that was found broken, with the shortest schedule that breaks it.
    pub(crate) broken: Option<(Promise, Vec<WorldAction>)>,
    /// Names of situations that the scenario must reach and did not.
    pub(crate) unreached: Vec<&'static str>,
}

impl CheckOutcome {
    /// Returns whether all promises hold and all situations were reached.
    pub(crate) fn is_complete(&self) -> bool {
        self.broken.is_none() && self.unreached.is_empty()
    }
}

/// Checks one scenario without the removed rules: all of its states, or those up to the first
/// counterexample. With a promise, only a counterexample to that promise counts.
///
/// The check runs on one thread, so state counts and lengths repeat exactly, and the schedule found
/// is a shortest one.
pub(crate) fn check_scenario(
    scenario: &Scenario,
    removed: &[Rule],
    promise: Option<Promise>,
) -> CheckOutcome {
    let start = Instant::now();
    let model = Protocol {
        scenario: scenario.clone(),
        rules: RuleSet::without(removed),
    };
    let end = promise.map_or(HasDiscoveries::AnyFailures, |promise| {
        HasDiscoveries::AnyOf([promise.name()].into())
    });
    let checker = model
        .checker()
        .threads(1)
        .finish_when(end)
        .spawn_bfs()
        .join();
    let discoveries = checker.discoveries();
    let mut broken = None;
    let mut unreached = Vec::new();
    for property in checker.model().properties() {
        let path = discoveries.get(property.name);
        match (Promise::from_name(property.name), path) {
            (Some(found), Some(path)) if promise.is_none_or(|promise| promise == found) => {
                broken = Some((found, path.clone().into_actions()));
            }
            (None, None) => unreached.push(property.name),
            _ => {}
        }
    }
    CheckOutcome {
        states: checker.unique_state_count(),
        depth: checker.max_depth() - 1,
        duration: start.elapsed(),
        broken,
        unreached,
    }
}

/// Checks a removal. Returns the outcome and whether it is the expected one, or `None` if no
/// scenario has the name in the removal.
pub(crate) fn check_removal(removal: &RuleRemoval) -> Option<(CheckOutcome, bool)> {
    let scenario = find_scenario(removal.scenario)?;
    let outcome = check_scenario(scenario, removal.rules, removal.broken);
    let is_expected = outcome.broken.is_some() == removal.broken.is_some();
    Some((outcome, is_expected))
}
