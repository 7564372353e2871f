//! The rules of `docs/dev/style.md` that a program can check.
//!
//! Each rule returns findings. The file `allowed.txt` has the number of findings of a rule that a
//! file may have. The list only shrinks: the check also fails if a file has fewer findings, until
//! the list is lowered.

mod allowed_findings;
mod documents;
mod folders;
mod functions;
mod impls;
mod lines;
mod metrics;
mod modules;
mod product_lines;
mod source_tree;
mod types;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use allowed_findings::AllowedFindings;
use source_tree::SourceTree;

/// A line, file or folder that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Name of the rule.
    rule: &'static str,
    /// File or folder, relative to the root of the project.
    path: String,
    /// Line, from 1; 0 for the whole file or folder.
    line: usize,
    /// What is wrong.
    text: String,
}

/// Checks the project at `root`. Returns its problems, each in one line.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn check_tree(root: &Path) -> Result<Vec<String>, String> {
    let tree = SourceTree::load(root)?;
    Ok(AllowedFindings::load(root)?.compare(&find_all(&tree)))
}

/// Counts the lines of the project at `root` that are built into the binary or the SDK, without
/// blank lines, comments and test modules. Returns the number of each crate.
///
/// # Errors
/// A file cannot be read or parsed.
pub fn count_product_lines(root: &Path) -> Result<BTreeMap<String, usize>, String> {
    let tree = SourceTree::load(root)?;
    let lines = product_lines::count_lines(tree.source_files());
    let owned = |(name, count): (&str, usize)| (name.to_owned(), count);
    Ok(lines.into_iter().map(owned).collect())
}

/// Lowers the list of allowed findings to the present findings.
///
/// # Errors
/// A file cannot be read, parsed or written.
pub fn lower_allowed(root: &Path) -> Result<(), String> {
    let tree = SourceTree::load(root)?;
    let mut allowed = AllowedFindings::load(root)?;
    allowed.lower(&find_all(&tree));
    allowed.store(root)
}

fn find_all(tree: &SourceTree) -> Vec<Finding> {
    let rules: [fn(&SourceTree) -> Vec<Finding>; 12] = [
        documents::names::find_unknown,
        documents::paths::find_dead,
        folders::find_crowded,
        functions::find_vague,
        functions::find_one_word_share,
        impls::find_distant,
        lines::find_long,
        metrics::find_undocumented,
        modules::find_cycles,
        types::find_repeated,
        types::find_one_word_share,
        words::find_banned,
    ];
    let mut findings: Vec<_> = rules.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

/// Returns the root of the project.
pub fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests;
