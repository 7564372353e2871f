//! The methods of a type are in its file or in its folder.

use std::collections::BTreeMap;

use super::Finding;
use super::source_tree::SourceTree;

/// Finds inherent impls outside the file and the folder of their type.
pub(super) fn find_distant(tree: &SourceTree) -> Vec<Finding> {
    let mut modules_of: BTreeMap<(&str, &str), Vec<Vec<&str>>> = BTreeMap::new();
    for file in tree.source_files() {
        let Some((of_crate, module)) = file.module() else {
            continue;
        };
        for (name, _) in &file.items.types {
            modules_of
                .entry((of_crate, name))
                .or_default()
                .push(module.clone());
        }
    }
    let mut findings = Vec::new();
    for file in tree.source_files() {
        let Some((of_crate, module)) = file.module() else {
            continue;
        };
        for (name, line) in &file.items.impls {
            let Some(modules_of) = modules_of.get(&(of_crate, name.as_str())) else {
                continue;
            };
            // The root of a crate is not the folder of one type.
            let is_near = |type_module: &Vec<&str>| {
                module == *type_module
                    || (!type_module.is_empty() && module.starts_with(type_module))
            };
            if !modules_of.iter().any(is_near) {
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
