//! Counts the lines of the product: code that is built into the binary or the SDK.

use std::collections::BTreeMap;

use super::source_tree::SourceFile;

/// Crates that only test or measure the product.
const OTHER_CRATES: [&str; 5] = [
    "crates/model",
    "crates/sim",
    "crates/test-support",
    "crates/xtask",
    "tests",
];

/// Returns the number of lines of each crate of the product, without blank lines, comments and test
/// modules.
pub(super) fn count_lines<'a>(
    files: impl Iterator<Item = &'a SourceFile>,
) -> BTreeMap<&'a str, usize> {
    let mut lines = BTreeMap::new();
    for file in files {
        match file.module() {
            Some((name, _)) if !OTHER_CRATES.contains(&name) => {
                *lines.entry(name).or_default() += count_file(file);
            }
            _ => {}
        }
    }
    lines
}

fn count_file(file: &SourceFile) -> usize {
    let is_code = |(number, text): &(usize, &str)| {
        let text = text.trim_start();
        let tests = &file.items.test_modules;
        let is_test = tests
            .iter()
            .any(|(first, last)| (first..=last).contains(&number));
        !text.is_empty() && !text.starts_with("//") && !is_test
    };
    (1..).zip(file.text.lines()).filter(is_code).count()
}
