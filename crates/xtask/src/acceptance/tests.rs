//! A scenario that fails is a row of the table, and the run continues.

use seqsvr_tests::scenario::{ALL, ClusterScenario, MEASURED_SCENARIOS, ScenarioOutcome};

use super::scenario_run::{run_all, select_scenarios};
use super::table::format_table;

fn sample_outcome() -> ScenarioOutcome {
    ScenarioOutcome {
        calls: 12_345,
        calls_during_fault: 678,
        notes: vec!["first note\nits second line".to_owned()],
        ..ScenarioOutcome::default()
    }
}

#[test]
fn panic_is_a_failed_verdict_and_next_scenario_runs() {
    let fails = ClusterScenario {
        name: "fails",
        about: "planted",
        run: || Box::pin(async { panic!("first line\n  second line") }),
    };
    let passes = ClusterScenario {
        name: "passes",
        about: "planted",
        run: || Box::pin(async { sample_outcome() }),
    };
    let runs = run_all(&[fails, passes], 2);
    let verdicts: Vec<_> = runs.iter().map(|run| run.verdict.as_ref().err()).collect();
    let failed = "first line; second line".to_owned();
    assert_eq!(verdicts, [Some(&failed), None, Some(&failed), None]);
    let text = format_table(&runs);
    let row_of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let row = row_of("fails 2/2");
    assert_eq!(row[2..6], ["-", "-", "-", "-"]);
    assert_eq!(row[7..], ["FAILED:", "first", "line;", "second", "line"]);
    let row = row_of("passes 1/2");
    assert_eq!(row[2..5], ["12345", "678", "0"]);
    assert_eq!(row[7], "passed");
    let notes = "\npasses 2/2\n  first note\n  its second line\n";
    assert!(text.contains(notes), "{text}");
    assert!(text.ends_with("\n2 of 4 FAILED\n"), "{text}");
}

#[test]
fn names_select_scenarios_and_unknown_name_is_rejected_with_the_list() {
    let select = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        select_scenarios(&names).map(|all| all.iter().map(|s| s.name).collect::<Vec<_>>())
    };
    assert_eq!(
        select(&[]).unwrap().len(),
        ALL.len() + MEASURED_SCENARIOS.len()
    );
    assert_eq!(
        select(&["store_killed", "dev"]).unwrap(),
        ["dev", "store_killed"]
    );
    let error = select(&["dev", "nosuch"]).unwrap_err();
    assert!(error.contains("name nosuch") && error.contains("owner_killed"));
}
