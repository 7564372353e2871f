//! Modules of a crate, and its folders, depend on each other in one direction.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::source_tree::{SourceFile, SourceTree};

/// Path of a module in its crate.
type ModulePath = Vec<String>;

/// Imports of each module, with the file and line of the first.
type Edges<'a> = BTreeMap<ModulePath, BTreeMap<ModulePath, (&'a SourceFile, usize)>>;

/// Finds imports that are part of a cycle of modules or of folders. A module may import from the
/// modules that contain it, and so may a folder.
pub(super) fn find_cycles(tree: &SourceTree) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in tree.source_files() {
        if let Some((of_crate, _)) = file.module() {
            crates.entry(of_crate).or_default().push(file);
        }
    }
    let mut findings = Vec::new();
    for files in crates.values() {
        let edges = edges_of(files);
        add_cycles(&edges, "cycle", &mut findings);
        add_cycles(&folder_edges(&edges), "folder cycle", &mut findings);
    }
    findings
}

fn add_cycles(edges: &Edges<'_>, rule: &'static str, findings: &mut Vec<Finding>) {
    for (from, imports) in edges {
        for (to, (file, line)) in imports {
            let is_known = |f: &Finding| f.path == file.path && f.line == *line;
            if can_reach(edges, to, from) && !findings.iter().any(is_known) {
                findings.push(Finding {
                    rule,
                    path: file.path.clone(),
                    line: *line,
                    text: format!(
                        "{} imports {}, which leads back",
                        from.join("::"),
                        to.join("::")
                    ),
                });
            }
        }
    }
}

/// Returns the imports between the folders and files in which the paths of two modules part.
fn folder_edges<'a>(edges: &Edges<'a>) -> Edges<'a> {
    let mut folders = Edges::new();
    for (from, imports) in edges {
        for (to, place) in imports {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // A module and its children are one folder.
            if from.len() > common && to.len() > common {
                let imports = folders.entry(from[..=common].to_vec()).or_default();
                imports.entry(to[..=common].to_vec()).or_insert(*place);
            }
        }
    }
    folders
}

fn edges_of<'a>(files: &[&'a SourceFile]) -> Edges<'a> {
    let to_module = |file: &SourceFile| -> Option<ModulePath> {
        let (_, parts) = file.module()?;
        Some(parts.into_iter().map(str::to_owned).collect())
    };
    let modules: BTreeSet<ModulePath> = files.iter().filter_map(|file| to_module(file)).collect();
    // Other modules may import a name from the module that imports it.
    let mut names: BTreeMap<(ModulePath, &str), Vec<String>> = BTreeMap::new();
    for file in files {
        let Some(module) = to_module(file) else {
            continue;
        };
        for (import, _) in &file.items.imports {
            let path = absolute_path(&modules, &module, import);
            if let (Some(path), Some(name)) = (path, import.last()) {
                names.insert((module.clone(), name), path);
            }
        }
    }
    let mut edges = Edges::new();
    for file in files {
        let Some(from) = to_module(file) else {
            continue;
        };
        for (import, line) in &file.items.imports {
            let Some(path) = absolute_path(&modules, &from, import) else {
                continue;
            };
            let to = defining_module(&modules, &names, path);
            if from != to && !from.starts_with(&to) {
                let imports = edges.entry(from.clone()).or_default();
                imports.entry(to).or_insert((file, *line));
            }
        }
    }
    edges
}

/// Returns the path from the root of the crate; None for a path of another crate.
fn absolute_path(
    modules: &BTreeSet<ModulePath>,
    module: &ModulePath,
    import: &[String],
) -> Option<Vec<String>> {
    let mut base = module.clone();
    let mut rest = import;
    match import.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        child => {
            base.push(child.to_owned());
            if !modules.contains(&base) {
                return None;
            }
            rest = &rest[1..];
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// Returns the module that defines a path, following re-exports by the names of imports.
fn defining_module(
    modules: &BTreeSet<ModulePath>,
    names: &BTreeMap<(ModulePath, &str), Vec<String>>,
    mut path: Vec<String>,
) -> ModulePath {
    // The bound ends the search if imports name each other.
    for _ in 0..4 {
        let mut module = path.clone();
        while !modules.contains(&module) && !module.is_empty() {
            module.pop();
        }
        let name = path.get(module.len()).map(String::as_str);
        let re_export = name.and_then(|name| names.get(&(module.clone(), name)));
        match re_export {
            Some(origin) => path = origin.clone(),
            None => return module,
        }
    }
    path
}

fn can_reach(edges: &Edges<'_>, from: &ModulePath, to: &ModulePath) -> bool {
    let mut open = vec![from];
    let mut seen = BTreeSet::new();
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            open.extend(edges.get(module).into_iter().flat_map(BTreeMap::keys));
        }
    }
    false
}
