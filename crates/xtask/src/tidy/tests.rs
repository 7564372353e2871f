//! Each rule finds planted violations, and the project follows all rules.

use super::source_tree::{SourceFile, SourceTree};
use super::*;

/// Makes a tree of files with these paths and texts.
fn make_tree(files: &[(&str, &str)]) -> SourceTree {
    let parse = |(path, text): &(&str, &str)| SourceFile::parse(path, (*text).to_owned()).unwrap();
    SourceTree {
        files: files.iter().map(parse).collect(),
    }
}

/// Returns the path and line of each finding.
fn locations(findings: &[Finding]) -> Vec<(&str, usize)> {
    findings.iter().map(|f| (f.path.as_str(), f.line)).collect()
}

#[test]
fn project_is_tidy() {
    let problems = check_tree(&project_root()).unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn long_lines_tabs_and_trailing_blanks_are_found() {
    let long = format!("// {}", "a ".repeat(60).trim_end());
    let text = format!("{long}\nfn f() {{}} \nfn g() {{\n\t\n}}\nconst A: &str = \"{long}\";\n");
    let findings = lines::find_long(&make_tree(&[("crates/a/src/lib.rs", &text)]));
    let path = "crates/a/src/lib.rs";
    assert_eq!(locations(&findings), [(path, 1), (path, 2), (path, 4)]);
}

#[test]
fn banned_words_are_found_as_whole_words() {
    let text = "It goes\non for ever.\nWhoever asks.\nIt foretold.\n";
    let findings = words::find_banned(&make_tree(&[("README.md", text)]));
    assert_eq!(locations(&findings), [("README.md", 2), ("README.md", 3)]);
}

#[test]
fn undocumented_metrics_are_found_in_code_texts_and_dashboards() {
    let code = "fn f() {\ngauge(\n\"left_ms\", 1);\ncounter(\"numbers\");\ngauge(\"gone\");\n}\n";
    let page = "| `seqsvr_raft_left_seconds` |\n| `seqsvr_raft_numbers_total` |\n";
    let text = "seqsvr_raft_left_seconds_sum seqsvr_raft_\nseqsvr_store_gone\n";
    let findings = metrics::find_undocumented(&make_tree(&[
        ("crates/raft/src/metrics.rs", code),
        ("docs/operations/metrics.md", page),
        ("deploy/prometheus/alerts.yml", text),
        ("docs/adr/0001-a.md", text),
    ]));
    let expected = [
        ("crates/raft/src/metrics.rs", 5),
        ("deploy/prometheus/alerts.yml", 2),
    ];
    assert_eq!(locations(&findings), expected);
}

#[test]
fn repeated_type_names_are_found_outside_tests() {
    let first = "struct Place;\npub enum Error {}\n#[cfg(test)]\nmod tests { struct Slot; }\n";
    let second = "pub trait Place {}\nstruct Slot;\nenum Error {}\n";
    let findings = types::find_repeated(&make_tree(&[
        ("crates/a/src/one.rs", first),
        ("crates/b/src/two.rs", second),
    ]));
    let expected = [("crates/a/src/one.rs", 1), ("crates/b/src/two.rs", 1)];
    assert_eq!(locations(&findings), expected);
}

#[test]
fn one_word_shares_are_percents_above_the_maximum() {
    let text = "struct One; struct TwoWords; struct Three; struct Four;";
    let files = [("crates/a/src/lib.rs", text)];
    assert_eq!(
        types::find_one_word_share(&make_tree(&files)).len(),
        75 - 35
    );
    let text = "fn one() {} fn two_words() {} impl Clone for A { fn clone(&self) -> A { A } }";
    let files = [("crates/a/src/lib.rs", text)];
    assert_eq!(
        functions::find_one_word_share(&make_tree(&files)).len(),
        50 - 40
    );
}

#[test]
fn vague_functions_are_found() {
    let text = "impl A {\n    fn told(&self) {}\n    fn log_mismatch(&self) {}\n}\nfn heard() {}\n";
    let findings = functions::find_vague(&make_tree(&[("crates/a/src/lib.rs", text)]));
    let path = "crates/a/src/lib.rs";
    assert_eq!(locations(&findings), [(path, 2), (path, 5)]);
}

#[test]
fn distant_methods_are_found() {
    let findings = impls::find_distant(&make_tree(&[
        ("crates/a/src/node/mod.rs", "pub struct Node;"),
        ("crates/a/src/node/calls.rs", "impl Node {}"),
        (
            "crates/a/src/far.rs",
            "impl Node {}\nimpl Drop for Node { fn drop(&mut self) {} }",
        ),
    ]));
    assert_eq!(locations(&findings), [("crates/a/src/far.rs", 1)]);
}

#[test]
fn folders_that_import_each_other_are_found() {
    let findings = modules::find_cycles(&make_tree(&[
        ("crates/a/src/lib.rs", "mod log; mod rpc;"),
        ("crates/a/src/log/mod.rs", "mod read; mod write;"),
        ("crates/a/src/log/read.rs", "use crate::rpc::Header;"),
        ("crates/a/src/log/write.rs", "use super::Entry;"),
        ("crates/a/src/rpc/mod.rs", "mod send;"),
        ("crates/a/src/rpc/send.rs", "use crate::log::write::Writer;"),
    ]));
    let places = [
        ("crates/a/src/log/read.rs", 1),
        ("crates/a/src/rpc/send.rs", 1),
    ];
    assert_eq!(locations(&findings), places);
}

#[test]
fn lines_of_product_are_counted_without_blanks_comments_and_tests() {
    let text =
        "//! A.\n\n/// B.\nfn b() {\n    // C.\n}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
    let tree = make_tree(&[
        ("crates/a/src/lib.rs", text),
        ("crates/a/src/tests.rs", text),
        ("crates/a/src/b.rs", "\nfn d() {}\n"),
        ("crates/xtask/src/lib.rs", text),
        ("tests/src/lib.rs", text),
    ]);
    let lines = product_lines::count_lines(tree.source_files());
    // `#[cfg(test)]` is a line.
    assert_eq!(lines.into_iter().collect::<Vec<_>>(), [("crates/a", 4)]);
}

#[test]
fn cycles_through_re_exports_of_a_parent_are_found() {
    let findings = modules::find_cycles(&make_tree(&[
        (
            "crates/a/src/lib.rs",
            "mod one; mod two; mod three; pub use three::Three;",
        ),
        ("crates/a/src/one.rs", "use crate::two::Two;"),
        ("crates/a/src/two.rs", "use super::Three;"),
        (
            "crates/a/src/three.rs",
            "use crate::one::{One, self};\nuse std::fmt;",
        ),
        ("crates/a/src/four.rs", "use crate::one::One;"),
    ]));
    let cycle = ["one", "three", "two"].map(|name| format!("crates/a/src/{name}.rs"));
    let mut found: Vec<_> = findings.iter().map(|f| f.path.clone()).collect();
    found.sort();
    assert_eq!(found, cycle);
}

#[test]
fn crowded_folders_are_found() {
    let names: Vec<String> = (0..16).map(|i| format!("crates/a/src/b/f{i}.rs")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let findings = folders::find_crowded(&make_tree(&files));
    assert_eq!(locations(&findings), [("crates/a/src/b", 0)]);
    let names: Vec<String> = (0..13).map(|i| format!("crates/a/src/f{i}.rs")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let findings = folders::find_crowded(&make_tree(&files));
    assert_eq!(locations(&findings), [("crates/a/src", 0)]);
}

#[test]
fn dead_paths_are_found_in_texts_and_comments() {
    let findings = documents::paths::find_dead(&make_tree(&[
        (
            "crates/a/src/b/c.rs",
            "// see `d.rs` and `b/c.rs`\nconst D: &str = \"`e.rs`\";\n",
        ),
        (
            "README.md",
            "`a/b/c.rs`\n`crates/a/src/b/c.rs`\n`a/c.rs`\n`cargo x.rs y`\n",
        ),
    ]));
    assert_eq!(
        locations(&findings),
        [("crates/a/src/b/c.rs", 1), ("README.md", 3)]
    );
}

#[test]
fn dead_links_are_found_in_markdown() {
    let page = "[a](other.md#b) [c](../crates/d) [web](https://e) [here](#f)\n[dead](gone.md)\n";
    let findings = documents::paths::find_dead(&make_tree(&[
        ("docs/page.md", page),
        ("docs/other.md", ""),
        ("crates/d/src/lib.rs", ""),
    ]));
    assert_eq!(locations(&findings), [("docs/page.md", 2)]);
}

#[test]
fn allowed_findings_only_shrink() {
    let finding = |line| Finding {
        rule: "line",
        path: String::from("a.rs"),
        line,
        text: String::from("long"),
    };
    let mut allowed = AllowedFindings::parse("line a.rs 2\n").unwrap();
    assert!(allowed.compare(&[finding(1), finding(2)]).is_empty());
    assert_eq!(
        allowed.compare(&[finding(1), finding(2), finding(3)]).len(),
        4
    );
    assert_eq!(allowed.compare(&[finding(1)]).len(), 1);
    allowed.lower(&[finding(1)]);
    assert_eq!(allowed, AllowedFindings::parse("line a.rs 1\n").unwrap());
    allowed.lower(&[finding(1), finding(2)]);
    assert_eq!(allowed, AllowedFindings::parse("line a.rs 1\n").unwrap());
    assert_eq!(allowed.compare(&[]).len(), 1);
    for text in ["line a.rs\n", "line a.rs 0\n", "line a.rs 1\nline a.rs 2\n"] {
        assert!(AllowedFindings::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn unknown_commands_crates_and_exit_codes_are_found() {
    let tree = make_tree(&[
        (
            "crates/seqsvr/src/cli/mod.rs",
            "pub enum CliCommand {\n    /// Text.\n    RaiseTo(A),\n    Slot(SlotCommand),\n}\n\
             enum SlotCommand {\n    Move(A),\n    Drain(B),\n}\n",
        ),
        (
            "crates/seqsvr/src/output/exit_code.rs",
            "/// A.\npub(crate) const FAILED_CODE: i32 = 3;\n",
        ),
        ("Cargo.lock", "name = \"clap\"\nname = \"seqsvr-core\"\n"),
        (
            "docs/a.md",
            "`seqsvr raise-to 1 2`, `seqsvr slot move|drain`, `seqsvr import F`, `seqsvr --help`\n\
             ```\n$ seqsvr slot put 1 ; seqsvr KEY\nseqsvr rise\n```\n\
             exit code 3 or exit code 0, and exit code 2; seqsvr is a service\n\
             `seqsvr-core` `seqsvr-nothing`\n\
             - Elsewhere the well-maintained crate: clap (a note), turmoil.\n",
        ),
        ("docs/adr/1.md", "`seqsvr import`\n"),
        ("docs/adr/2.md", ""),
        ("docs/adr/README.md", "| [1](1.md) | one |\n"),
    ]);
    let findings = documents::names::find_unknown(&tree);
    let found: Vec<_> = findings.iter().map(|f| (f.line, f.text.as_str())).collect();
    assert_eq!(
        found,
        [
            (0, "the table of decisions lacks 2.md"),
            (1, "there is no command `seqsvr import`"),
            (3, "there is no command `seqsvr slot put`"),
            (4, "there is no command `seqsvr rise`"),
            (6, "no command ends with exit code 2"),
            (7, "there is no crate `seqsvr-nothing`"),
            (8, "there is no crate `turmoil`"),
        ]
    );
    let findings = documents::names::find_unknown(&make_tree(&[]));
    assert_eq!(locations(&findings), [("docs/design.md", 0)]);
}
