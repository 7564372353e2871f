//! Checks of one scenario, with all rules or without some.

use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::grants::grant_protocol::GrantProtocol;
use crate::grants::grant_scenario::{GRANT_SCENARIOS, GrantScenario};
use crate::protocol::Protocol;
use crate::rules::promise::Promise;
use crate::rules::rule_removals::RuleRemoval;
use crate::rules::{Rule, RuleSet};
use crate::scenario::Scenario;
use crate::scenario::table::SCENARIOS;

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
    pub(crate) broken: Option<(Promise, Vec<String>)>,
    /// Names of situations that the scenario must reach and did not.
    pub(crate) unreached: Vec<&'static str>,
}

impl CheckOutcome {
    /// Returns whether all promises hold and all situations were reached.
    pub(crate) fn is_complete(&self) -> bool {
        self.broken.is_none() && self.unreached.is_empty()
    }
}

/// A scenario of one of the models.
pub(crate) trait CheckedScenario: Debug {
    /// Returns its name on the command line.
    fn name(&self) -> &'static str;

    /// Checks it without the removed rules: all of its states, or those up to the first
    /// counterexample. With a promise, only a counterexample to that promise counts.
    fn check(&self, removed: &[Rule], promise: Option<Promise>) -> CheckOutcome;
}

impl CheckedScenario for Scenario {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, removed: &[Rule], promise: Option<Promise>) -> CheckOutcome {
        let model = Protocol {
            scenario: self.clone(),
            rules: RuleSet::without(removed),
        };
        check_model(model, promise)
    }
}

impl CheckedScenario for GrantScenario {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, removed: &[Rule], promise: Option<Promise>) -> CheckOutcome {
        let model = GrantProtocol {
            scenario: self.clone(),
            rules: RuleSet::without(removed),
        };
        check_model(model, promise)
    }
}

/// Returns the scenario of any model with this name.
pub(crate) fn find_scenario(name: &str) -> Option<&'static dyn CheckedScenario> {
    let sequences = SCENARIOS.iter().map(|it| it as &dyn CheckedScenario);
    let grants = GRANT_SCENARIOS.iter().map(|it| it as &dyn CheckedScenario);
    sequences.chain(grants).find(|it| it.name() == name)
}

/// Checks a model.
///
/// The check runs on one thread, so state counts and lengths repeat exactly, and the schedule found
/// is a shortest one.
fn check_model<M>(model: M, promise: Option<Promise>) -> CheckOutcome
where
    M: Model<
            State: Debug + Hash + Clone + PartialEq + Send + Sync + 'static,
            Action: Debug + Clone + PartialEq + Send + Sync + 'static,
        > + Send
        + Sync
        + 'static,
{
    let start = Instant::now();
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
                let actions = path.clone().into_actions();
                let schedule = actions.iter().map(|action| format!("{action:?}"));
                broken = Some((found, schedule.collect()));
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
    let outcome = scenario.check(removal.rules, removal.broken);
    let is_expected = outcome.broken.is_some() == removal.broken.is_some();
    Some((outcome, is_expected))
}
