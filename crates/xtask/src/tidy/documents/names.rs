//! Commands, crates and exit codes that documents name exist, and tables of decisions have all.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Finding;
use crate::tidy::source_tree::{SourceFile, SourceTree};

/// Folder of the command line.
const CLI: &str = "crates/seqsvr/src/cli/";
/// Documents of the past, and the rules, which name wrong examples.
const EXEMPT: &[&str] = &["docs/adr/", "docs/dev/style.md", "CHANGELOG.md"];
/// The line of the design that lists crates of others begins so.
const CRATE_LIST: &str = "- Elsewhere the well-maintained crate: ";
/// Documents with a table of all decisions.
const DECISION_TABLES: &[&str] = &["docs/design.md", "docs/adr/README.md"];
/// File with the exit codes of commands.
const EXIT_CODES: &str = "crates/seqsvr/src/output/exit_code.rs";

/// Finds commands, crates and exit codes that do not exist, and decisions that no table lists.
pub(in crate::tidy) fn find_unknown(tree: &SourceTree) -> Vec<Finding> {
    let commands = read_commands(tree);
    let crates = read_crates(tree);
    let exit_codes = read_exit_codes(tree);
    let mut has_crate_list = false;
    let mut findings = Vec::from_iter(find_unlisted_decisions(tree));
    let documents = tree.files.iter().filter(|file| {
        file.path.ends_with(".md") && !EXEMPT.iter().any(|start| file.path.starts_with(start))
    });
    for file in documents {
        let mut in_block = false;
        for (index, line) in file.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
                continue;
            }
            has_crate_list |= line.starts_with(CRATE_LIST);
            let code: Vec<&str> = match in_block {
                true => vec![line],
                false => line.split('`').skip(1).step_by(2).collect(),
            };
            let unknown = code
                .iter()
                .flat_map(|code| unknown_command(code, &commands));
            let unknown = unknown.chain(unknown_crates(line, &code, &crates));
            for text in unknown.chain(unknown_exit_code(line, &exit_codes)) {
                findings.push(Finding {
                    rule: "name",
                    path: file.path.clone(),
                    line: index + 1,
                    text,
                });
            }
        }
    }
    if !has_crate_list {
        findings.push(Finding {
            rule: "name",
            path: "docs/design.md".to_owned(),
            line: 0,
            text: format!("no line begins with `{CRATE_LIST}`"),
        });
    }
    findings
}

/// Finds decisions that a table of decisions lacks.
fn find_unlisted_decisions(tree: &SourceTree) -> impl Iterator<Item = Finding> {
    let decisions = tree.files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("docs/adr/")?;
        name.starts_with(|c: char| c.is_ascii_digit())
            .then_some(name)
    });
    let is_table = |file: &&SourceFile| DECISION_TABLES.contains(&file.path.as_str());
    let tables = tree.files.iter().filter(is_table);
    tables.flat_map(move |table| {
        let unlisted = decisions.clone().filter(|name| {
            let link = format!("{name}) | ");
            !table.text.contains(&link)
        });
        unlisted.map(|name| Finding {
            rule: "name",
            path: table.path.clone(),
            line: 0,
            text: format!("the table of decisions lacks {name}"),
        })
    })
}

/// Returns the commands, each with the commands below it.
fn read_commands(tree: &SourceTree) -> BTreeMap<String, BTreeSet<String>> {
    let is_cli = |file: &&SourceFile| file.path.starts_with(CLI);
    let mut enums = BTreeMap::new();
    for file in tree.files.iter().filter(is_cli) {
        for part in file.text.split("enum ").skip(1) {
            let (name, body) = part.split_once('{').unwrap_or_default();
            let Some(name) = name.trim().strip_suffix("Command") else {
                continue;
            };
            let body = body.split("\n}").next().unwrap_or_default();
            let variants = body.lines().filter_map(|line| line.strip_prefix("    "));
            let variants = variants.filter(|line| line.starts_with(char::is_uppercase));
            let variants = variants.map(|line| {
                let end = line.find(|c: char| !c.is_alphanumeric());
                to_kebab(&line[..end.unwrap_or(line.len())])
            });
            enums.insert(to_kebab(name), variants.collect::<BTreeSet<_>>());
        }
    }
    let all = enums.remove("cli").unwrap_or_default();
    let with_below = |name: String| {
        let below = enums.get(&name).cloned().unwrap_or_default();
        (name, below)
    };
    all.into_iter().map(with_below).collect()
}

fn to_kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}

/// Returns the names of this project's crates, and of those of others.
fn read_crates(tree: &SourceTree) -> BTreeSet<String> {
    let is_known =
        |file: &&SourceFile| file.path.ends_with("Cargo.toml") || file.path == "Cargo.lock";
    let lines = tree.files.iter().filter(is_known);
    let lines = lines.flat_map(|file| file.text.lines());
    let names = lines.filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    names.map(str::to_owned).collect()
}

/// Returns the exit codes of commands: 0, and those that have a constant.
fn read_exit_codes(tree: &SourceTree) -> BTreeSet<u32> {
    let files = tree.files.iter().filter(|file| file.path == EXIT_CODES);
    let lines = files.flat_map(|file| file.text.lines());
    let codes = lines.filter_map(|line| line.split_once("_CODE: i32 = ")?.1.strip_suffix(';'));
    let codes = codes.filter_map(|code| code.parse().ok());
    codes.chain([0]).collect()
}

/// Describes what code names after `seqsvr`, if it is no command.
fn unknown_command(
    code: &str,
    commands: &BTreeMap<String, BTreeSet<String>>,
) -> impl Iterator<Item = String> {
    let pieces = code.split([';', '&']).flat_map(|part| part.split(" | "));
    pieces.filter_map(|piece| {
        let piece = piece.trim_start().trim_start_matches("$ ");
        let piece = piece
            .trim_start_matches("sudo ")
            .trim_start_matches("target/release/");
        let mut words = piece.strip_prefix("seqsvr ")?.split_whitespace();
        let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
        let first = words.next().filter(is_name)?;
        // Alternatives: `create|alter|list`.
        for name in first.split('|') {
            let Some(below) = commands.get(name) else {
                return Some(format!("there is no command `seqsvr {name}`"));
            };
            let second = words.clone().next().filter(is_name);
            let mut second = second.iter().flat_map(|second| second.split('|'));
            let unknown = second.find(|second| !below.is_empty() && !below.contains(*second));
            if let Some(unknown) = unknown {
                return Some(format!("there is no command `seqsvr {name} {unknown}`"));
            }
        }
        None
    })
}

/// Describes crates that a line names and that do not exist.
fn unknown_crates(line: &str, code: &[&str], crates: &BTreeSet<String>) -> Vec<String> {
    let is_own = |name: &&&str| {
        let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
        name.starts_with("seqsvr-") && name.chars().all(is_plain)
    };
    let listed = line.strip_prefix(CRATE_LIST).unwrap_or_default();
    let listed = listed.split([',', '.']);
    let listed = listed.filter_map(|text| text.split_whitespace().next());
    let named = code.iter().filter(is_own).copied().chain(listed);
    let unknown = named.filter(|name| !crates.contains(*name));
    unknown
        .map(|name| format!("there is no crate `{name}`"))
        .collect()
}

fn unknown_exit_code(line: &str, codes: &BTreeSet<u32>) -> Option<String> {
    let after = line.split("exit code ").skip(1);
    let digits = after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let mut named = digits.filter_map(|digits| digits.parse::<u32>().ok());
    let code = named.find(|code| !codes.contains(code))?;
    Some(format!("no command ends with exit code {code}"))
}
