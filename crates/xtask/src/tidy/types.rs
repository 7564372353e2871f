//! Names of types are unique in the workspace.

use std::collections::BTreeMap;

use super::Finding;
use super::source_tree::SourceTree;

/// Names that each crate may use.
const SHARED: &[&str] = &["Error", "Options", "Config", "Args"];
/// Maximum share of types with a name of one word, in percent.
const ONE_WORD_MAX: usize = 35;

/// Finds types that share a name.
pub(super) fn find_repeated(tree: &SourceTree) -> Vec<Finding> {
    let mut places: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for file in tree.source_files() {
        for (name, line) in &file.items.types {
            places.entry(name).or_default().push((&file.path, *line));
        }
    }
    places.retain(|name, places| places.len() > 1 && !SHARED.contains(name));
    let mut findings = Vec::new();
    for (name, places) in places {
        for (path, line) in &places {
            findings.push(Finding {
                rule: "type",
                path: (*path).to_owned(),
                line: *line,
                text: format!("`{name}` is the name of {} types", places.len()),
            });
        }
    }
    findings
}

/// Returns one finding for each percent of types of one word above the maximum.
pub(super) fn find_one_word_share(tree: &SourceTree) -> Vec<Finding> {
    let names = tree.source_files().flat_map(|file| &file.items.types);
    let is_one_word = |name: &str| name.chars().filter(|c| c.is_uppercase()).count() <= 1;
    share_findings("one-word-types", names, is_one_word, ONE_WORD_MAX)
}

/// Returns one finding for each percent of names of one word above `max`.
pub(super) fn share_findings<'a>(
    rule: &'static str,
    names: impl Iterator<Item = &'a (String, usize)>,
    is_one_word: impl Fn(&str) -> bool,
    max: usize,
) -> Vec<Finding> {
    let (mut count, mut all) = (0, 0);
    for (name, _) in names {
        count += usize::from(is_one_word(name));
        all += 1;
    }
    // Rounded up, so that a share just above the maximum is found.
    let percent = (100 * count).div_ceil(all.max(1));
    let finding = Finding {
        rule,
        path: String::from("."),
        line: 0,
        text: format!("{count} of {all} names have one word, at most {max} % may"),
    };
    vec![finding; percent.saturating_sub(max)]
}
