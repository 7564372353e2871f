//! Metrics that code makes, or that texts and dashboards name, are in `docs/operations/metrics.md`.
//!
//! The reverse, the types and the labels are compared by a test that reads the metrics of running
//! servers.

use std::collections::BTreeSet;

use super::Finding;
use super::source_tree::SourceTree;

/// The page that has all metrics.
const PAGE: &str = "docs/operations/metrics.md";
/// Crates with metrics; the crate is a part of the name.
const CRATES: [&str; 3] = ["alloc", "store", "raft"];
/// Suffixes of the series of a histogram.
const HISTOGRAM_SUFFIXES: [&str; 3] = ["_bucket", "_count", "_sum"];
/// Calls whose first argument is the name of a metric.
const CONSTRUCTORS: [&str; 3] = ["gauge(", "counter(", "in_ms("];

/// Finds names of metrics that the page does not have.
pub(super) fn find_undocumented(tree: &SourceTree) -> Vec<Finding> {
    let page = tree.files.iter().find(|file| file.path == PAGE);
    let rows = page.into_iter().flat_map(|page| page.text.lines());
    let documented: BTreeSet<&str> = rows
        .filter_map(|row| row.strip_prefix("| `")?.split('`').next())
        .collect();
    let is_known = |name: &str| {
        let base = HISTOGRAM_SUFFIXES.iter().find_map(|s| name.strip_suffix(s));
        documented.contains(name) || base.is_some_and(|base| documented.contains(base))
    };
    let mut findings = Vec::new();
    for file in &tree.files {
        // Older decisions name the metrics of their time.
        let is_adr = file.path.starts_with("docs/adr/");
        let names = match file.path.split('/').collect::<Vec<_>>()[..] {
            ["docs" | "deploy", ..] if !is_adr => named_metrics(&file.text),
            ["crates", of_crate, "src", ..] if CRATES.contains(&of_crate) => {
                constructed_metrics(of_crate, &file.text)
            }
            _ => Vec::new(),
        };
        for (line, name) in names {
            if !is_known(&name) && !is_known(&format!("{name}_total")) {
                findings.push(Finding {
                    rule: "metric",
                    path: file.path.clone(),
                    line,
                    text: format!("{PAGE} has no `{name}`"),
                });
            }
        }
    }
    findings
}

/// Line and name of each metric that a text names.
fn named_metrics(text: &str) -> Vec<(usize, String)> {
    let words = |line: &str| -> Vec<String> {
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_metric = |word: &&str| {
            let parts = word.strip_prefix("seqsvr_").and_then(|w| w.split_once('_'));
            parts.is_some_and(|(of_crate, name)| CRATES.contains(&of_crate) && !name.is_empty())
        };
        words.filter(is_metric).map(str::to_owned).collect()
    };
    let lines = text.lines().enumerate();
    let named = lines.flat_map(|(i, line)| words(line).into_iter().map(move |w| (i + 1, w)));
    named.collect()
}

/// Line and full name of each metric that a source file makes.
fn constructed_metrics(of_crate: &str, text: &str) -> Vec<(usize, String)> {
    let calls = CONSTRUCTORS
        .iter()
        .flat_map(|call| text.match_indices(call));
    let names = calls.filter_map(|(begin, call)| {
        let argument = text[begin + call.len()..].trim_start();
        let (name, _) = argument.strip_prefix('"')?.split_once('"')?;
        let base = name.strip_suffix("_us").or(name.strip_suffix("_ms"));
        let name = base.map_or(name.to_owned(), |base| format!("{base}_seconds"));
        let line = text[..begin].matches('\n').count() + 1;
        Some((line, format!("seqsvr_{of_crate}_{name}")))
    });
    names.collect()
}
