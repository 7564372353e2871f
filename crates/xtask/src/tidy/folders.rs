//! Folders are small enough to be read at a glance.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source_tree::SourceTree;

/// Maximum files of a folder `src`; its folders do not count.
const SRC_FILES_MAX: usize = 12;
/// Maximum entries of any other folder of a crate or of `tests`.
const ENTRIES_MAX: usize = 15;

/// Finds folders with more entries: one finding for each entry above the maximum.
pub(super) fn find_crowded(tree: &SourceTree) -> Vec<Finding> {
    let mut entries: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in &tree.files {
        let mut path = file.path.as_str();
        while let Some((folder, name)) = path.rsplit_once('/') {
            entries.entry(folder).or_default().insert(name);
            path = folder;
        }
    }
    let is_code = |folder: &str| folder.contains("/src") || folder.starts_with("tests");
    let mut findings = Vec::new();
    for (folder, names) in entries.iter().filter(|(folder, _)| is_code(folder)) {
        let is_src = folder.ends_with("/src");
        let files = names.iter().filter(|name| !is_src || name.contains('.'));
        let (count, max) = match is_src {
            true => (files.count(), SRC_FILES_MAX),
            false => (names.len(), ENTRIES_MAX),
        };
        for _ in max..count {
            findings.push(Finding {
                rule: "folder",
                path: (*folder).to_owned(),
                line: 0,
                text: format!("{count} entries, at most {max}"),
            });
        }
    }
    findings
}
