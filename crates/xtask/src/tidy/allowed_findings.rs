//! The list of allowed findings.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::Finding;

/// Number of allowed findings of each rule in each file or folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AllowedFindings(BTreeMap<(String, String), usize>);

impl AllowedFindings {
    /// Reads the list of the project at `root`.
    pub(super) fn load(root: &Path) -> Result<AllowedFindings, String> {
        let path = list_path(root);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(format!("cannot read {}: {e}", path.display())),
        };
        AllowedFindings::parse(&text)
    }

    /// Reads lines of `rule path count`. A line that allows nothing or is repeated is an error.
    pub(super) fn parse(text: &str) -> Result<AllowedFindings, String> {
        let mut allowed = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            let (Some(rule), Some(path), Some(count), None) =
                (words.next(), words.next(), words.next(), words.next())
            else {
                return Err(format!("{line:?} is not `rule path count`"));
            };
            let count = count.parse().map_err(|e| format!("{line:?}: {e}"))?;
            let earlier = allowed.insert((rule.to_owned(), path.to_owned()), count);
            if count == 0 || earlier.is_some() {
                return Err(format!("{line:?} has no effect; remove it"));
            }
        }
        Ok(AllowedFindings(allowed))
    }

    /// Returns the findings above the list, and the lines of the list that allow too much.
    pub(super) fn compare(&self, findings: &[Finding]) -> Vec<String> {
        let found = count_findings(findings);
        let mut problems = Vec::new();
        for ((rule, path), count) in &found {
            let allowed = self.count(rule, path);
            if *count > allowed {
                let of_file = findings
                    .iter()
                    .filter(|f| f.rule == rule && f.path == *path);
                problems
                    .extend(of_file.map(|f| format!("{}:{}: {rule}: {}", f.path, f.line, f.text)));
                // All findings of a share have the same text.
                problems.dedup();
                problems.push(format!(
                    "{path}: {rule}: {count} findings, {allowed} allowed"
                ));
            }
        }
        for ((rule, path), allowed) in &self.0 {
            let count = found
                .get(&(rule.clone(), path.clone()))
                .copied()
                .unwrap_or(0);
            if count < *allowed {
                problems.push(format!(
                    "{path}: {rule}: {count} findings, {allowed} allowed; run `cargo xtask tidy --lower`"
                ));
            }
        }
        problems
    }

    /// Lowers each count to the number of findings, and removes lines without findings.
    pub(super) fn lower(&mut self, findings: &[Finding]) {
        let found = count_findings(findings);
        for (key, allowed) in &mut self.0 {
            *allowed = found.get(key).copied().unwrap_or(0).min(*allowed);
        }
        self.0.retain(|_, allowed| *allowed > 0);
    }

    /// Writes the list of the project at `root`.
    pub(super) fn store(&self, root: &Path) -> Result<(), String> {
        let mut text = String::new();
        for ((rule, path), count) in &self.0 {
            let _ = writeln!(text, "{rule} {path} {count}");
        }
        let path = list_path(root);
        std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
    }

    fn count(&self, rule: &str, path: &str) -> usize {
        self.0
            .get(&(rule.to_owned(), path.to_owned()))
            .copied()
            .unwrap_or(0)
    }
}

fn list_path(root: &Path) -> PathBuf {
    root.join("crates/xtask/src/tidy/allowed.txt")
}

fn count_findings(findings: &[Finding]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for finding in findings {
        *counts
            .entry((finding.rule.to_owned(), finding.path.clone()))
            .or_default() += 1;
    }
    counts
}
