//! The table of an acceptance run, and below it the notes of the scenarios.

use super::scenario_run::ScenarioRun;

const HEAD: [&str; 7] = [
    "scenario",
    "calls",
    "inside event",
    "failed",
    "longest call",
    "time",
    "verdict",
];
/// Maximum characters of a failure. The rest is cut off here; stderr has the whole text.
const FAILURE_CHARS_MAX: usize = 200;

/// Returns a row for each run, the notes of those that passed, and the overall verdict.
pub(super) fn format_table(runs: &[ScenarioRun]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(runs.iter().map(format_cells));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).filter_map(width).collect();
    let mut text = String::from("\n");
    for [name, values @ .., verdict] in &rows {
        text += &format!("{name:0$}", widths[0]);
        for (value, width) in values.iter().zip(&widths[1..]) {
            text += &format!("  {value:>width$}");
        }
        text += &format!("  {verdict}\n");
    }
    for run in runs {
        let notes = run.verdict.iter().flat_map(|outcome| &outcome.notes);
        let notes: Vec<&str> = notes.flat_map(|note| note.lines()).collect();
        if !notes.is_empty() {
            text += &format!("\n{}\n  {}\n", run.name, notes.join("\n  "));
        }
    }
    let failed = runs.iter().filter(|run| run.verdict.is_err()).count();
    text += &match failed {
        0 => format!("\nall {} passed\n", runs.len()),
        _ => format!("\n{failed} of {} FAILED\n", runs.len()),
    };
    text
}

fn format_cells(run: &ScenarioRun) -> [String; 7] {
    let name = run.name.clone();
    let time = format!("{:.1?}", run.took);
    match &run.verdict {
        Ok(outcome) => [
            name,
            outcome.calls.to_string(),
            outcome.calls_during_fault.to_string(),
            outcome.failed.to_string(),
            format!("{:.1?}", outcome.longest),
            time,
            "passed".to_owned(),
        ],
        Err(failure) => {
            let failure: String = failure.chars().take(FAILURE_CHARS_MAX).collect();
            let none = || "-".to_owned();
            let verdict = format!("FAILED: {failure}");
            [name, none(), none(), none(), none(), time, verdict]
        }
    }
}
