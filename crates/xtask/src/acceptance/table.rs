//! The table of an acceptance run, and below it what the scenarios noted.

use super::Row;

const HEAD: [&str; 7] = [
    "scenario",
    "calls",
    "inside event",
    "failed",
    "longest call",
    "time",
    "verdict",
];
/// Characters kept of a failure: the whole of it was printed when it happened.
const WORDS: usize = 200;

/// All rows, the notes of those that passed, and a last line with the verdict on all.
pub(super) fn render(rows: &[Row]) -> String {
    let mut lines = vec![HEAD.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).filter_map(width).collect();
    let mut text = String::from("\n");
    for [name, figures @ .., verdict] in &lines {
        text += &format!("{name:0$}", widths[0]);
        for (figure, width) in figures.iter().zip(&widths[1..]) {
            text += &format!("  {figure:>width$}");
        }
        text += &format!("  {verdict}\n");
    }
    for row in rows {
        let notes = row.verdict.iter().flat_map(|outcome| &outcome.notes);
        let notes: Vec<&str> = notes.flat_map(|note| note.lines()).collect();
        if !notes.is_empty() {
            text += &format!("\n{}\n  {}\n", row.name, notes.join("\n  "));
        }
    }
    let failed = rows.iter().filter(|row| row.verdict.is_err()).count();
    text += &match failed {
        0 => format!("\nall {} passed\n", rows.len()),
        _ => format!("\n{failed} of {} FAILED\n", rows.len()),
    };
    text
}

fn cells(row: &Row) -> [String; 7] {
    let name = row.name.clone();
    let time = format!("{:.1?}", row.took);
    match &row.verdict {
        Ok(outcome) => [
            name,
            outcome.calls.to_string(),
            outcome.calls_during_fault.to_string(),
            outcome.failed.to_string(),
            format!("{:.1?}", outcome.longest),
            time,
            "passed".to_owned(),
        ],
        Err(words) => {
            let words: String = words.chars().take(WORDS).collect();
            let none = || "-".to_owned();
            let verdict = format!("FAILED: {words}");
            [name, none(), none(), none(), none(), time, verdict]
        }
    }
}
