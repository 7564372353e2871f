//! Methods lie where their type is.

use std::collections::BTreeMap;

use super::Finding;
use super::source::SourceTree;

/// Finds inherent impls outside the file of their type and its own folder.
pub(super) fn find_distant(tree: &SourceTree) -> Vec<Finding> {
    let mut homes: BTreeMap<(&str, &str), Vec<Vec<&str>>> = BTreeMap::new();
    for file in tree.sources() {
        let Some((of_crate, module)) = file.module() else {
            continue;
        };
        for (name, _) in &file.items.types {
            homes
                .entry((of_crate, name))
                .or_default()
                .push(module.clone());
        }
    }
    let mut findings = Vec::new();
    for file in tree.sources() {
        let Some((of_crate, module)) = file.module() else {
            continue;
        };
        for (name, line) in &file.items.impls {
            let Some(homes) = homes.get(&(of_crate, name.as_str())) else {
                continue;
            };
            // The root of a crate is no folder of one type.
            let is_at_home = |home: &Vec<&str>| {
                module == *home || (!home.is_empty() && module.starts_with(home))
            };
            if !homes.iter().any(is_at_home) {
                findings.push(Finding {
                    rule: "impl",
                    path: file.path.clone(),
                    line: *line,
                    text: format!("`impl {name}` lies outside the file and folder of `{name}`"),
                });
            }
        }
    }
    findings
}
