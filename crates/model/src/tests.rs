//! The protocol and the table of removals as tests, one for each scenario: a rule that is lost
//! from the model, or a hole that opens in the protocol, fails here.

use crate::rule_removals::REMOVALS;
use crate::rules::{Rule, Rules};
use crate::runner::{check, check_removal, scenario};
use crate::scenario::SCENARIOS;

/// The whole protocol must hold and reach what the scenario is for; without each rule that the
/// table names for it, what the table says must come of it.
fn play(name: &str) {
    let full = check(scenario(name).expect("a scenario of that name"), &[], None);
    assert!(full.holds(), "{name}: {full:#?}");
    for removal in REMOVALS.iter().filter(|removal| removal.scenario == name) {
        let (outcome, as_expected) = check_removal(removal).expect("the table names a scenario");
        assert!(as_expected, "{removal:?}: {outcome:#?}");
    }
}

macro_rules! scenarios {
    ($($test:ident = $name:literal,)*) => {
        $(#[test] fn $test() { play($name); })*

        #[test]
        fn every_scenario_is_played() {
            let played = [$($name),*];
            assert!(SCENARIOS.iter().map(|scenario| scenario.name).eq(played));
        }
    };
}

scenarios! {
    leases = "leases",
    expiry = "expiry",
    rejoin = "rejoin",
    assigns = "assigns",
    generations = "generations",
    raise_to = "raise-to",
    takeover = "takeover",
    moves = "moves",
    moved_back = "moved-back",
    leave = "leave",
    restart = "restart",
    strict = "strict",
    clusters = "clusters",
}

/// The first Open at an epoch does not name the generation that it follows, which is as if the rule
/// were not there. A late duplicate then leaves a gap (see the table), but repeats no number and
/// keeps the order.
#[test]
fn without_the_expected_generation_only_tightness_breaks() {
    for (name, promise) in [
        ("takeover", "unique"),
        ("moves", "monotonic"),
        ("moved-back", "monotonic"),
    ] {
        let bounds = scenario(name).expect("a scenario of that name");
        let outcome = check(bounds, &[Rule::OpenExpected], Some(promise));
        assert!(outcome.broken.is_none(), "{name}: {outcome:#?}");
    }
}

/// No rule is left untried, and no line of the table is left out.
#[test]
fn every_rule_is_in_the_table() {
    for rule in Rule::ALL {
        let tried = REMOVALS.iter().any(|removal| removal.rules == [*rule]);
        assert!(tried, "{rule:?}: {}", rule.text());
    }
    for removal in REMOVALS {
        assert!(scenario(removal.scenario).is_some(), "{removal:?}");
    }
}

#[test]
fn a_removed_rule_is_not_in_force() {
    let rules = Rules::without(&[Rule::Confirm, Rule::StrictObject]);
    assert!(!rules.has(Rule::Confirm) && !rules.has(Rule::StrictObject));
    let others = Rule::ALL.iter().filter(|rule| rules.has(**rule)).count();
    assert_eq!(others, Rule::ALL.len() - 2);
}
