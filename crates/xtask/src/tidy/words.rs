//! Texts and code are in plain English.

use super::Finding;
use super::source_tree::{SourceFile, SourceTree};

/// Words and phrases that `docs/dev/style.md` bans.
const BANNED: &[&str] = &[
    "anew",
    "anybody",
    "asked",
    "besides",
    "come again",
    "for ever",
    "goes on",
    "hears",
    "in vain",
    "lately",
    "lest",
    "meanwhile",
    "mended",
    "nobody",
    "of use",
    "somebody",
    "stands still",
    "told",
    "whatever",
    "whoever",
];
/// Files that are about the words themselves.
const EXEMPT: &[&str] = &["docs/dev/style.md", "crates/xtask/src/tidy/"];

/// Finds banned words in code, comments and texts.
pub(super) fn find_banned(tree: &SourceTree) -> Vec<Finding> {
    let has_words = |file: &&SourceFile| {
        let is_text = [
            ".rs", ".md", ".proto", ".toml", ".yml", ".html", ".js", ".py", ".json", ".service",
        ];
        (file.path == ".ci/run" || is_text.iter().any(|end| file.path.ends_with(end)))
            && !EXEMPT.iter().any(|start| file.path.starts_with(start))
    };
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(has_words) {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase();
            for word in BANNED.iter().filter(|word| has_word(&line, word)) {
                findings.push(Finding {
                    rule: "word",
                    path: file.path.clone(),
                    line: index + 1,
                    text: format!("`{word}` is not plain English"),
                });
            }
        }
    }
    findings
}

/// Returns whether a line has a word or phrase that is not part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}
