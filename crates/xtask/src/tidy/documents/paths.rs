//! Paths in texts and comments, and relative links of Markdown files, exist.

use std::collections::BTreeSet;

use crate::tidy::Finding;
use crate::tidy::source_tree::{SourceFile, SourceTree};

/// Extensions of the checked paths.
const ENDS: &[&str] = &[".rs", ".md", ".proto", ".toml"];
/// Texts that name files of earlier commits, of examples and of tests.
const EXEMPT: &[&str] = &[
    "docs/adr/",
    "docs/dev/style.md",
    "CHANGELOG.md",
    "crates/xtask/src/tidy/",
];

/// Finds paths that do not exist.
pub(in crate::tidy) fn find_dead(tree: &SourceTree) -> Vec<Finding> {
    let mut known = BTreeSet::new();
    for file in &tree.files {
        let mut rest = file.path.as_str();
        known.insert(rest);
        while let Some((_, end)) = rest.split_once('/') {
            known.insert(end);
            rest = end;
        }
    }
    let mut findings = find_dead_links(tree);
    let has_paths = |file: &&SourceFile| {
        let is_text = file.path.ends_with(".rs") || file.path.ends_with(".md");
        is_text && !EXEMPT.iter().any(|start| file.path.starts_with(start))
    };
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
                        text: format!("the path `{path}` does not exist"),
                    });
                }
            }
        }
    }
    findings
}

/// Finds relative links that lead to no file and no folder.
fn find_dead_links(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            for link in relative_links(line) {
                let target = resolve_link(&file.path, link);
                let leads = |known: &SourceFile| {
                    let rest = known.path.strip_prefix(&target);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                if !target.is_empty() && !tree.files.iter().any(leads) {
                    findings.push(Finding {
                        rule: "path",
                        path: file.path.clone(),
                        line: index + 1,
                        text: format!("the link `{link}` leads to no file"),
                    });
                }
            }
        }
    }
    findings
}

/// Returns the link targets within the repository, without their anchors. Pictures are left out:
/// the tree holds texts only.
fn relative_links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets
        .filter(|target| !target.is_empty() && !target.contains(':') && !target.ends_with(".png"))
}

/// Returns the path from the root of the repository to which a link of the file `from` leads.
fn resolve_link(from: &str, link: &str) -> String {
    let mut folders: Vec<&str> = from.split('/').collect();
    folders.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                folders.pop();
            }
            name => folders.push(name),
        }
    }
    folders.join("/")
}

fn comment_of(line: &str) -> &str {
    line.find("//").map_or("", |at| &line[at..])
}

/// Returns the paths in backquotes.
fn quoted_paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|path| {
        let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
        ENDS.iter()
            .any(|end| path.ends_with(end) && path.len() > end.len())
            && path.chars().all(is_plain)
    })
}

/// Returns whether a file has this path or ends with it. The folder `src` of a crate may be left
/// out.
fn is_known(known: &BTreeSet<&str>, path: &str) -> bool {
    if known.contains(path) {
        return true;
    }
    let Some((of_crate, rest)) = path.split_once('/') else {
        return false;
    };
    known.contains(format!("{of_crate}/src/{rest}").as_str())
}
