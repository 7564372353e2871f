//! Paths in texts and comments exist.

use std::collections::BTreeSet;

use super::Finding;
use super::source::{SourceFile, SourceTree};

/// Ends of names of files that texts speak of.
const ENDS: &[&str] = &[".rs", ".md", ".proto", ".toml"];
/// Files of earlier trees, of examples and of tests are named there.
const EXEMPT: &[&str] = &[
    "docs/adr/",
    "docs/dev/style.md",
    "CHANGELOG.md",
    "crates/xtask/src/tidy/",
];

/// Finds paths that no file has.
pub(super) fn find_dead(tree: &SourceTree) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    for file in &tree.files {
        let mut rest = file.path.as_str();
        known.insert(rest);
        while let Some((_, end)) = rest.split_once('/') {
            known.insert(end);
            rest = end;
        }
    }
    let has_paths = |file: &&SourceFile| {
        let is_text = file.path.ends_with(".rs") || file.path.ends_with(".md");
        is_text && !EXEMPT.iter().any(|start| file.path.starts_with(start))
    };
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(has_paths) {
        for (index, line) in file.text.lines().enumerate() {
            let text = match file.path.ends_with(".rs") {
                true => comment_of(line),
                false => line,
            };
            for path in quoted_paths(text) {
                if !is_known(&known, path) {
                    findings.push(Finding {
                        rule: "path",
                        path: file.path.clone(),
                        line: index + 1,
                        text: format!("no file has the path `{path}`"),
                    });
                }
            }
        }
    }
    findings
}

fn comment_of(line: &str) -> &str {
    line.find("//").map_or("", |at| &line[at..])
}

/// Paths in backquotes. Of a crate's source file the folder `src` may be left out.
fn quoted_paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|path| {
        let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
        ENDS.iter()
            .any(|end| path.ends_with(end) && path.len() > end.len())
            && path.chars().all(is_plain)
    })
}

fn is_known(known: &BTreeSet<&str>, path: &str) -> bool {
    if known.contains(path) {
        return true;
    }
    let Some((of_crate, rest)) = path.split_once('/') else {
        return false;
    };
    known.contains(format!("{of_crate}/src/{rest}").as_str())
}
