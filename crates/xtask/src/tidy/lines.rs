//! Lines are short, and have no tabs and no blanks at the end.

use super::Finding;
use super::source_tree::SourceTree;

/// Maximum columns of a line of Rust.
const COLUMNS_MAX: usize = 100;

/// Finds long lines of Rust, tabs, and blanks at the end of a line. A line with a string or a URL
/// may be longer.
pub(super) fn find_long(tree: &SourceTree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        for (index, line) in file.text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let may_be_longer = line.contains("://") || (!is_comment && line.contains('"'));
            let columns = line.chars().count();
            let text = if columns > COLUMNS_MAX && !may_be_longer {
                format!("{columns} columns, at most {COLUMNS_MAX}")
            } else if line.contains('\t') {
                String::from("a tab")
            } else if line.ends_with(' ') {
                String::from("a blank at the end")
            } else {
                continue;
            };
            findings.push(Finding {
                rule: "line",
                path: file.path.clone(),
                line: index + 1,
                text,
            });
        }
    }
    findings
}
