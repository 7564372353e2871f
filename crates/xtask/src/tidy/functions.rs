//! Names of functions say what the functions do.

use super::Finding;
use super::source_tree::SourceTree;
use super::types::share_findings;

/// Names that a reader can neither guess nor search for.
const VAGUE: &[&str] = &[
    "about",
    "again",
    "another",
    "apart",
    "around",
    "asked",
    "at_once",
    "done",
    "elsewhere",
    "found",
    "given",
    "go",
    "got",
    "had",
    "heard",
    "here",
    "how",
    "know",
    "late",
    "left",
    "made",
    "meant",
    "named",
    "near",
    "nobody",
    "of",
    "only",
    "other",
    "others",
    "passing",
    "said",
    "saw",
    "so_far",
    "sought",
    "taken",
    "told",
    "tried",
    "turn",
    "wanted",
    "whole",
    "whose",
    "within",
];
/// Maximum share of functions with a name of one word, in percent.
const ONE_WORD_MAX: usize = 40;

/// Finds functions with vague names.
pub(super) fn find_vague(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.source_files() {
        for (name, line) in &file.items.functions {
            if VAGUE.contains(&name.as_str()) {
                findings.push(Finding {
                    rule: "function",
                    path: file.path.clone(),
                    line: *line,
                    text: format!("`fn {name}` does not say what it does"),
                });
            }
        }
    }
    findings
}

/// Returns one finding for each percent of functions of one word above the maximum. Methods of an
/// impl of a trait do not count.
pub(super) fn find_one_word_share(tree: &SourceTree) -> Vec<Finding> {
    let names = tree.source_files().flat_map(|file| &file.items.functions);
    let is_one_word = |name: &str| !name.trim_matches('_').contains('_');
    share_findings("one-word-functions", names, is_one_word, ONE_WORD_MAX)
}
