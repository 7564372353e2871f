//! Seeded faults: the checker must report each under its own rule, with the right lines. A correct
//! twin that differs as little as possible must pass.

use std::path::PathBuf;

use seqsvr_check::{CheckReport, HistoryReader, HistoryRule, check_calls, check_file};

/// Checks lines of `sequence begin end first last epoch kind outcome [stride]`; the first is line
/// 1.
#[expect(clippy::unwrap_used, reason = "only tests call it")]
fn check_lines(lines: &str) -> CheckReport {
    let text = format!("seqsvr-history 1\n{}\n", lines.trim());
    let calls: Result<Vec<_>, _> = HistoryReader::new(text.as_bytes()).unwrap().collect();
    let calls: Vec<_> = calls.unwrap().into_iter().map(|(_, call)| call).collect();
    check_calls(&calls).unwrap()
}

#[track_caller]
fn assert_reported(rule: HistoryRule, expected_lines: &[u64], lines: &str) {
    let report = check_lines(lines);
    assert!(!report.is_ok());
    let broken: Vec<_> = report.broken_rules.keys().copied().collect();
    assert_eq!(broken, [rule], "{report}");
    let named: Vec<_> = report.violations[0]
        .calls
        .iter()
        .map(|call| call.line)
        .collect();
    assert_eq!(named, expected_lines, "{report}");
    for line in expected_lines {
        assert!(
            report.violations[0].description.contains(&line.to_string()),
            "{report}"
        );
        assert!(
            report.to_string().contains(&format!("line {line}: d/1\t")),
            "{report}"
        );
    }
}

#[track_caller]
fn assert_accepted(lines: &str) {
    let report = check_lines(lines);
    assert!(report.is_ok(), "{report}");
}

#[test]
fn number_handed_out_twice_is_reported() {
    assert_reported(
        HistoryRule::Duplicate,
        &[1, 2],
        "d/1 0 9 1 5 1 next ok\nd/1 5 15 5 6 1 next ok",
    );
    assert_reported(
        HistoryRule::Duplicate,
        &[1, 3],
        "d/1 0 9 1 9 1 next ok\nd/1 0 9 10 11 1 next ok\nd/1 0 9 3 3 1 next ok",
    );
    assert_accepted("d/1 0 9 1 5 1 next ok\nd/1 5 15 6 6 1 next ok");
    assert_accepted("d/1 0 9 1 5 1 next ok\nd/2 5 15 5 6 1 next ok");
    assert_accepted("d/1 0 9 1 5 1 next ok\nd/1 5 15 5 6 1 next error");
}

#[test]
fn number_below_an_earlier_one_is_reported() {
    assert_reported(
        HistoryRule::Order,
        &[1, 2],
        "d/1 0 9 2 2 1 next ok\nd/1 10 15 1 1 1 next ok",
    );
    assert_accepted("d/1 0 10 2 2 1 next ok\nd/1 10 15 1 1 1 next ok");
    // The call that convicts is neither the neighbor nor the last to end.
    assert_reported(
        HistoryRule::Order,
        &[1, 3],
        "d/1 0 3 7 7 1 next ok\nd/1 0 9 2 2 1 next ok\nd/1 10 15 5 5 1 next ok",
    );
}

#[test]
fn epoch_that_falls_is_reported() {
    assert_reported(
        HistoryRule::Epoch,
        &[1, 2],
        "d/1 0 9 1 1 2 next ok\nd/1 10 15 2 2 1 next ok",
    );
    assert_reported(
        HistoryRule::Epoch,
        &[1, 2],
        "d/1 0 9 1 1 2 next ok\nd/1 10 15 - - 1 current-at-most ok"
            .replace("- -", "9 9")
            .as_str(),
    );
    assert_accepted("d/1 0 9 1 1 2 next ok\nd/1 9 15 2 2 1 next ok");
    assert_accepted("d/1 0 9 1 1 2 next ok\nd/1 10 15 2 2 - next ok");
}

#[test]
fn exact_below_a_reached_number_is_reported() {
    assert_reported(
        HistoryRule::ExactLow,
        &[1, 2],
        "d/1 0 9 1 5 1 next ok\nd/1 10 15 4 4 1 current-exact ok"
            .replace("1 5", "5 5")
            .as_str(),
    );
    assert_reported(
        HistoryRule::ExactLow,
        &[1, 2],
        "d/1 0 9 5 5 1 current-exact ok\nd/1 10 15 4 4 1 current-exact ok",
    );
    assert_reported(
        HistoryRule::ExactLow,
        &[1, 2],
        "d/1 0 9 5 5 1 raise-to ok\nd/1 10 15 4 4 1 current-exact ok",
    );
    assert_accepted("d/1 0 9 5 5 1 next ok\nd/1 10 15 5 5 1 current-exact ok");
    assert_accepted("d/1 0 10 5 5 1 next ok\nd/1 10 15 4 4 1 current-exact ok");
}

#[test]
fn next_not_above_an_exact_is_reported() {
    assert_reported(
        HistoryRule::ExactPassed,
        &[1, 2],
        "d/1 0 9 5 5 1 current-exact ok\nd/1 10 15 5 5 1 next ok",
    );
    assert_accepted("d/1 0 9 5 5 1 current-exact ok\nd/1 10 15 6 6 1 next ok");
    assert_accepted("d/1 0 9 5 5 1 current-exact ok\nd/1 9 15 3 3 1 next ok");
}

#[test]
fn exact_inside_a_concurrent_range_is_reported() {
    assert_reported(
        HistoryRule::ExactInside,
        &[1, 2],
        "d/1 0 9 5 8 1 next ok\nd/1 0 9 7 7 1 current-exact ok",
    );
    assert_accepted("d/1 0 9 5 8 1 next ok\nd/1 0 9 8 8 1 current-exact ok");
    assert_accepted("d/1 0 9 5 8 1 next ok\nd/1 0 9 4 4 1 current-exact ok");
}

#[test]
fn never_after_a_number_is_reported() {
    assert_reported(
        HistoryRule::NeverAfter,
        &[1, 2],
        "d/1 0 9 1 1 1 next ok\nd/1 10 15 - - 1 current-never ok",
    );
    assert_reported(
        HistoryRule::NeverAfter,
        &[1, 2],
        "d/1 0 9 1 1 1 current-exact ok\nd/1 10 15 - - 1 current-never ok",
    );
    assert_accepted("d/1 0 9 1 1 1 next ok\nd/1 9 15 - - 1 current-never ok");
    assert_accepted("d/1 0 9 0 0 1 raise-to ok\nd/1 10 15 - - 1 current-never ok");
    assert_accepted("d/1 0 - - - - next unknown\nd/1 10 15 - - 1 current-never ok");
}

#[test]
fn at_most_below_a_reached_number_is_reported() {
    assert_reported(
        HistoryRule::AtMostLow,
        &[1, 2],
        "d/1 0 9 5 5 1 next ok\nd/1 10 15 4 4 1 current-at-most ok",
    );
    assert_reported(
        HistoryRule::AtMostLow,
        &[1, 2],
        "d/1 0 9 5 5 1 raise-to ok\nd/1 10 15 4 4 1 current-at-most ok",
    );
    assert_accepted("d/1 0 9 5 5 1 next ok\nd/1 10 15 5 5 1 current-at-most ok");
    // The bound constrains no later call: lower bounds and lower numbers are correct.
    assert_accepted(
        "d/1 0 9 9 9 1 current-at-most ok\nd/1 10 15 5 5 1 current-at-most ok\nd/1 20 25 1 1 1 next ok",
    );
}

#[test]
fn next_not_above_a_raise_is_reported() {
    assert_reported(
        HistoryRule::RaiseLost,
        &[1, 2],
        "d/1 0 9 5 6 1 raise-to ok\nd/1 10 15 6 6 1 next ok",
    );
    assert_accepted("d/1 0 9 5 6 1 raise-to ok\nd/1 10 15 7 7 1 next ok");
    assert_accepted("d/1 0 9 5 6 1 raise-to error\nd/1 10 15 6 6 1 next ok");
    // A raise never lowers, so its answer may be below the numbers handed out.
    assert_accepted(
        "d/1 0 9 50 50 1 next ok\nd/1 10 15 6 6 1 raise-to ok\nd/1 20 25 51 51 1 next ok",
    );
    assert_reported(HistoryRule::RaiseShort, &[1], "d/1 0 9 7 6 1 raise-to ok");
}

#[test]
fn raise_orders_calls_that_overlap() {
    // All overlap line 1; but 5 to 8 can only have come before the raise to 6.
    let raised = "d/1 0 99 5 8 1 next ok\nd/1 10 15 6 6 1 raise-to ok";
    assert_reported(
        HistoryRule::AtMostLow,
        &[1, 2, 3],
        &format!("{raised}\nd/1 20 25 7 7 1 current-at-most ok"),
    );
    assert_accepted(&format!("{raised}\nd/1 20 25 8 8 1 current-at-most ok"));
    assert_accepted(&format!("{raised}\nd/1 15 25 6 6 1 current-at-most ok"));
    assert_reported(
        HistoryRule::NeverAfter,
        &[1, 2, 3],
        &format!("{raised}\nd/1 20 25 - - 1 current-never ok"),
    );
    assert_accepted(
        "d/1 0 99 5 8 1 next ok\nd/1 10 15 4 4 1 raise-to ok\nd/1 20 25 - - 1 current-never ok",
    );
}

#[test]
fn numbers_off_the_stride_are_reported() {
    assert_accepted("d/1 0 9 1 9 1 next ok 2\nd/1 10 15 11 11 1 next ok 2");
    assert_reported(
        HistoryRule::Duplicate,
        &[1, 2],
        "d/1 0 9 1 9 1 next ok 2\nd/1 0 9 5 5 1 next ok 2",
    );
    assert_reported(
        HistoryRule::Stride,
        &[2],
        "d/1 0 9 1 9 1 next ok 2\nd/1 0 9 6 6 1 next ok 2",
    );
    assert_reported(
        HistoryRule::Stride,
        &[2],
        "d/1 0 9 1 9 1 next ok 2\nd/1 10 15 11 11 1 next ok",
    );
    assert_reported(HistoryRule::Range, &[1], "d/1 0 9 1 8 1 next ok 2");
}

#[test]
fn malformed_range_is_reported() {
    assert_reported(HistoryRule::Range, &[1], "d/1 0 9 0 3 1 next ok");
    assert_reported(HistoryRule::Range, &[1], "d/1 0 9 4 3 1 next ok");
    assert_reported(
        HistoryRule::Range,
        &[1],
        "d/1 0 9 9223372036854775807 9223372036854775808 1 next ok",
    );
    assert_accepted("d/1 0 9 9223372036854775807 9223372036854775807 1 next ok");
}

#[test]
fn report_counts_all_violations_and_lists_a_few() {
    let lines: Vec<_> = (0..1_000)
        .map(|call| format!("d/1 {} {} 1 1 1 next ok", 2 * call, 2 * call))
        .collect();
    let report = check_lines(&lines.join("\n"));
    assert_eq!(report.broken_rules[&HistoryRule::Order], 999);
    assert_eq!(report.broken_rules[&HistoryRule::Duplicate], 999);
    assert_eq!(report.violations_total(), 1_998);
    assert_eq!(report.violations.len(), 10);
}

#[test]
fn check_file_names_the_lines() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("planted-swap.history");
    let text =
        "seqsvr-history 1\n# seed 7\n\nd/1\t0\t9\t2\t2\t1\tnext\tok\nd/1 10 15 1 1 1 next ok\n";
    std::fs::write(&path, text).unwrap();
    let shown = check_file(&path).unwrap().to_string();
    assert!(
        shown.contains("line 4 ended at 9 before line 5 began at 10"),
        "{shown}"
    );
    assert!(
        shown.contains("NOT OK: 1 violations (order 1); 1 listed"),
        "{shown}"
    );
    let missing = check_file(path.with_extension("gone"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("planted-swap.gone"), "{missing}");
}
