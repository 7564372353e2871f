//! The files of the project that git knows, and the syntax of the Rust files.

use std::path::Path;
use std::process::Command;

use syn::visit::{self, Visit};

/// A file of the project.
pub(super) struct SourceFile {
    /// Relative to the root of the project.
    pub(super) path: String,
    /// Content of the file.
    pub(super) text: String,
    /// Definitions and imports of a Rust file; empty for other files.
    pub(super) items: FileItems,
}

/// Definitions and imports of a Rust file, without those of test modules.
#[derive(Default)]
pub(super) struct FileItems {
    /// Name and line of each struct, enum and trait.
    pub(super) types: Vec<(String, usize)>,
    /// Name and line of the type of each inherent impl.
    pub(super) impls: Vec<(String, usize)>,
    /// Name and line of each function, except methods of an impl of a trait.
    pub(super) functions: Vec<(String, usize)>,
    /// Parts and line of each imported path; `*` stands for all names.
    pub(super) imports: Vec<(Vec<String>, usize)>,
    /// First and last line of the body of each test module.
    pub(super) test_modules: Vec<(usize, usize)>,
}

/// All files of the project.
pub(super) struct SourceTree {
    pub(super) files: Vec<SourceFile>,
}

impl SourceTree {
    /// Reads the files that git knows at `root`.
    pub(super) fn load(root: &Path) -> Result<SourceTree, String> {
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .map_err(|e| format!("cannot start git: {e}"))?;
        if !listed.status.success() {
            let why = String::from_utf8_lossy(&listed.stderr);
            return Err(format!("git cannot list the files: {}", why.trim()));
        }
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut files = Vec::new();
        for path in names.split('\0').filter(|path| !path.is_empty()) {
            // Deleted files whose deletion is not committed, and binary files, are left out.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.push(SourceFile::parse(path, text)?);
            }
        }
        Ok(SourceTree { files })
    }

    /// Returns the Rust files.
    pub(super) fn rust_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Returns the Rust files of crates, without tests, benchmarks and examples.
    pub(super) fn source_files(&self) -> impl Iterator<Item = &SourceFile> {
        self.rust_files().filter(|file| {
            let is_source = file.path.contains("/src/") || file.path.starts_with("src/");
            is_source && !file.path.contains("/tests/") && !file.path.ends_with("/tests.rs")
        })
    }
}

impl SourceFile {
    /// Parses a file.
    pub(super) fn parse(path: &str, text: String) -> Result<SourceFile, String> {
        let mut items = FileItems::default();
        if path.ends_with(".rs") {
            let syntax = syn::parse_file(&text).map_err(|e| format!("{path}: {e}"))?;
            items.visit_file(&syntax);
        }
        let path = path.to_owned();
        Ok(SourceFile { path, text, items })
    }

    /// Returns the crate and module path of a source file, such as `("crates/raft", ["log",
    /// "codec"])`; None for other files.
    pub(super) fn module(&self) -> Option<(&str, Vec<&str>)> {
        let (root, rest) = self.path.split_once("/src/")?;
        let stem = rest.strip_suffix(".rs")?;
        let mut parts: Vec<&str> = stem.split('/').collect();
        if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
            parts.pop();
        }
        Some((root, parts))
    }
}

fn line_of(spanned: &syn::Ident) -> usize {
    spanned.span().start().line
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = attribute.path().is_ident("test");
        let tokens = match &attribute.meta {
            syn::Meta::List(list) => list.tokens.to_string(),
            _ => String::new(),
        };
        is_test || (attribute.path().is_ident("cfg") && tokens.contains("test"))
    })
}

impl FileItems {
    fn add_import(&mut self, before: &[String], tree: &syn::UseTree) {
        let mut path = before.to_vec();
        let (name, rest) = match tree {
            syn::UseTree::Path(path) => (&path.ident, Some(&*path.tree)),
            syn::UseTree::Name(name) => (&name.ident, None),
            syn::UseTree::Rename(rename) => (&rename.ident, None),
            syn::UseTree::Glob(_) => {
                path.push(String::from("*"));
                self.imports.push((path, 0));
                return;
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_import(before, tree);
                }
                return;
            }
        };
        path.push(name.to_string());
        match rest {
            Some(rest) => self.add_import(&path, rest),
            None => self.imports.push((path, line_of(name))),
        }
    }
}

impl<'ast> Visit<'ast> for FileItems {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        } else if let Some((brace, _)) = &item.content {
            let end = brace.span.close().start().line;
            self.test_modules.push((line_of(&item.ident), end));
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add_import(&[], &item.tree);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.types
            .push((item.ident.to_string(), line_of(&item.ident)));
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.types
            .push((item.ident.to_string(), line_of(&item.ident)));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.types
            .push((item.ident.to_string(), line_of(&item.ident)));
        visit::visit_item_trait(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            let name = &item.sig.ident;
            self.functions.push((name.to_string(), line_of(name)));
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let name = &item.sig.ident;
        self.functions.push((name.to_string(), line_of(name)));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_some() || is_test(&item.attrs) {
            return;
        }
        if let syn::Type::Path(of) = &*item.self_ty
            && let Some(last) = of.path.segments.last()
        {
            self.impls
                .push((last.ident.to_string(), line_of(&last.ident)));
        }
        for part in &item.items {
            if let syn::ImplItem::Fn(function) = part {
                let name = &function.sig.ident;
                self.functions.push((name.to_string(), line_of(name)));
            }
        }
    }
}
