//! The protocols in every scenario, and the table of removals. A rule that is lost from the model,
//! or a hole in the protocol, fails here.

use crate::checker::{check_removal, find_scenario};
use crate::grants::grant_scenario::GRANT_SCENARIOS;
use crate::rules::promise::Promise;
use crate::rules::rule_removals::RULE_REMOVALS;
use crate::rules::{Rule, RuleSet};
use crate::scenario::table::SCENARIOS;

/// Checks the whole protocol in a scenario, then each removal that the table has for it.
fn check_with_removals(name: &str) {
    let scenario = find_scenario(name).expect("a scenario of that name");
    let outcome = scenario.check(&[], None);
    assert!(outcome.is_complete(), "{name}: {outcome:#?}");
    for removal in RULE_REMOVALS
        .iter()
        .filter(|removal| removal.scenario == name)
    {
        let (outcome, is_expected) = check_removal(removal).expect("the table names a scenario");
        assert!(is_expected, "{removal:?}: {outcome:#?}");
    }
}

macro_rules! scenario_tests {
    ($($test:ident = $name:literal,)*) => {
        $(#[test] fn $test() { check_with_removals($name); })*

        #[test]
        fn each_scenario_has_a_test() {
            let tested = [$($name),*];
            let sequences = SCENARIOS.iter().map(|scenario| scenario.name);
            let grants = GRANT_SCENARIOS.iter().map(|scenario| scenario.name);
            assert!(sequences.chain(grants).eq(tested));
        }
    };
}

scenario_tests! {
    leases_with_and_without_rules_end_as_expected = "leases",
    expiry_with_and_without_rules_ends_as_expected = "expiry",
    rejoin_with_and_without_rules_ends_as_expected = "rejoin",
    assigns_with_and_without_rules_end_as_expected = "assigns",
    generations_with_and_without_rules_end_as_expected = "generations",
    raise_to_with_and_without_rules_ends_as_expected = "raise-to",
    takeover_with_and_without_rules_ends_as_expected = "takeover",
    moves_with_and_without_rules_end_as_expected = "moves",
    moved_back_with_and_without_rules_ends_as_expected = "moved-back",
    leave_with_and_without_rules_ends_as_expected = "leave",
    restart_with_and_without_rules_ends_as_expected = "restart",
    strict_with_and_without_rules_ends_as_expected = "strict",
    clusters_with_and_without_rules_end_as_expected = "clusters",
    pauses_with_and_without_rules_end_as_expected = "pauses",
    releases_with_and_without_rules_end_as_expected = "releases",
    retries_with_and_without_rules_end_as_expected = "retries",
    two_workers_with_and_without_rules_end_as_expected = "two-workers",
    sticky_with_and_without_rules_ends_as_expected = "sticky",
    floors_with_and_without_rules_end_as_expected = "floors",
    lanes_reuse_with_and_without_rules_ends_as_expected = "lanes-reuse",
    lanes_once_with_and_without_rules_ends_as_expected = "lanes-once",
}

/// The first Open at an epoch does not name the generation that it follows, which is as if the rule
/// did not exist. A late duplicate then leaves a gap (see the table), but repeats no number and
/// keeps the order.
#[test]
fn without_the_expected_generation_only_tightness_breaks() {
    for (name, promise) in [
        ("takeover", Promise::Unique),
        ("moves", Promise::Monotonic),
        ("moved-back", Promise::Monotonic),
    ] {
        let scenario = find_scenario(name).expect("a scenario of that name");
        let outcome = scenario.check(&[Rule::OpenExpected], Some(promise));
        assert!(outcome.broken.is_none(), "{name}: {outcome:#?}");
    }
}

/// The order of ids is judged too, though rules that keep it keep `unique` first of all: the ids of
/// one holder, and those of a later worker epoch.
#[test]
fn without_rules_of_grants_ids_fall() {
    for (rule, name) in [
        (Rule::RememberEpoch, "releases"),
        (Rule::GrantAboveUntil, "sticky"),
    ] {
        let scenario = find_scenario(name).expect("a scenario of that name");
        let outcome = scenario.check(&[rule], Some(Promise::Monotonic));
        assert!(outcome.broken.is_some(), "{rule:?}: {outcome:#?}");
    }
}

#[test]
fn table_of_removals_has_every_rule_alone() {
    for rule in Rule::ALL {
        let is_removed = RULE_REMOVALS.iter().any(|removal| removal.rules == [*rule]);
        assert!(is_removed, "{rule:?}");
    }
}

#[test]
fn table_of_removals_names_existing_scenarios() {
    for removal in RULE_REMOVALS {
        assert!(find_scenario(removal.scenario).is_some(), "{removal:?}");
    }
}

#[test]
fn rule_set_without_two_rules_has_all_others() {
    let rules = RuleSet::without(&[Rule::Confirm, Rule::StrictObject]);
    assert!(!rules.has(Rule::Confirm) && !rules.has(Rule::StrictObject));
    let others = Rule::ALL.iter().filter(|rule| rules.has(**rule)).count();
    assert_eq!(others, Rule::ALL.len() - 2);
}
