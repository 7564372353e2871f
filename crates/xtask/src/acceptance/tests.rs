//! A scenario that fails is a row, and the run goes on.

use super::*;

fn seen() -> ScenarioOutcome {
    ScenarioOutcome {
        calls: 12_345,
        calls_during_fault: 678,
        notes: vec!["seen\ntwice".to_owned()],
        ..ScenarioOutcome::default()
    }
}

#[test]
fn a_panic_is_a_failed_verdict_and_the_next_scenario_runs() {
    let fails = ClusterScenario {
        name: "fails",
        about: "planted",
        run: || Box::pin(async { panic!("first line\n  second line") }),
    };
    let passes = ClusterScenario {
        name: "passes",
        about: "planted",
        run: || Box::pin(async { seen() }),
    };
    let rows = run_all(&[fails, passes], 2);
    let verdicts: Vec<_> = rows.iter().map(|row| row.verdict.as_ref().err()).collect();
    let failed = "first line; second line".to_owned();
    assert_eq!(verdicts, [Some(&failed), None, Some(&failed), None]);
    let text = table::render(&rows);
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let row = of("fails 2/2");
    assert_eq!(row[2..6], ["-", "-", "-", "-"]);
    assert_eq!(row[7..], ["FAILED:", "first", "line;", "second", "line"]);
    let row = of("passes 1/2");
    assert_eq!(row[2..5], ["12345", "678", "0"]);
    assert_eq!(row[7], "passed");
    assert!(text.contains("\npasses 2/2\n  seen\n  twice\n"), "{text}");
    assert!(text.ends_with("\n2 of 4 FAILED\n"), "{text}");
}

#[test]
fn names_choose_and_an_unknown_one_is_told_all() {
    let names = |only: &[&str]| {
        let only: Vec<String> = only.iter().map(|&o| o.to_owned()).collect();
        chosen(&only).map(|all| all.iter().map(|s| s.name).collect::<Vec<_>>())
    };
    assert_eq!(
        names(&[]).unwrap().len(),
        ALL.len() + MEASURED_SCENARIOS.len()
    );
    assert_eq!(
        names(&["store_killed", "dev"]).unwrap(),
        ["dev", "store_killed"]
    );
    let refused = names(&["dev", "nosuch"]).unwrap_err();
    assert!(refused.contains("named nosuch") && refused.contains("owner_killed"));
}
