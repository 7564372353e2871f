//! `seqsvr auth`: the file of principals that it keeps, and what it rejects.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::dev::{clean_command, expect_exit_code};

/// A directory with a file of principals.
struct TestFile {
    dir: TempDir,
}

impl TestFile {
    fn new() -> TestFile {
        let dir = tempfile::tempdir().unwrap();
        TestFile { dir }
    }

    /// Makes a file with an admin and a caller that takes numbers, each with a token.
    fn with_two() -> TestFile {
        let file = TestFile::new();
        let ops = "auth add auth.toml --principal ops --cluster status,admin --out ops.token";
        let billing = "auth add auth.toml --principal billing --next orders,@ids/* --current inv-* --out b.token";
        file.run_ok(ops);
        file.run_ok(billing);
        file
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn mode_of(&self, name: &str) -> u32 {
        fs::metadata(self.path(name)).unwrap().mode() & 0o7777
    }

    fn count_files(&self) -> usize {
        fs::read_dir(self.dir.path()).unwrap().count()
    }

    /// Runs a command in the directory.
    fn run(&self, line: &str) -> Output {
        let args: Vec<&str> = line.split_whitespace().collect();
        let mut command = clean_command(&args);
        command.current_dir(self.dir.path()).output().unwrap()
    }

    fn run_ok(&self, line: &str) -> String {
        let output = self.run(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && errors.is_empty(),
            "{line}: {errors}"
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with `code` and with these words.
    fn expect_error(&self, line: &str, code: i32, words: &[&str]) {
        let text = expect_exit_code(&self.run(line), code);
        for word in words {
            assert!(text.contains(word), "{line} says {text:?}");
        }
    }

    fn assert_can(&self, question: &str) {
        let answer = self.run_ok(&format!("auth can auth.toml {question}"));
        assert!(answer.starts_with("yes: "), "{answer}");
    }

    fn assert_cannot(&self, question: &str) {
        self.expect_error(
            &format!("auth can auth.toml {question}"),
            1,
            &["no: ", " does not have the right "],
        );
    }
}

#[test]
fn principals_are_added_listed_and_questioned() {
    let file = TestFile::with_two();
    for name in ["auth.toml", "ops.token", "b.token"] {
        assert_eq!(file.mode_of(name), 0o600, "{name}");
    }
    assert_eq!(file.count_files(), 3);
    let checked = file.run_ok("auth check auth.toml");
    assert_eq!(checked, "auth.toml: principals 2, tokens 2\n");

    let listed = file.run_ok("auth list auth.toml --json");
    let listed: Vec<Value> = listed
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let hash = listed[1]["sha256"][0].as_str().unwrap();
    let billing = json!({
        "name": "billing",
        "sha256": [hash],
        "next": ["orders", "@ids/*"],
        "current": ["inv-*"],
        "raise": [],
        "cluster": [],
    });
    assert_eq!(listed[1], billing);
    let lines = file.run_ok("auth list auth.toml");
    let line = lines.lines().nth(1).unwrap();
    let short = &hash[..8];
    assert_eq!(
        line,
        format!("billing: next orders, @ids/*; current inv-*; tokens {short}")
    );

    for who in ["--principal billing", "--token-file b.token"] {
        for on in ["next orders", "next @ids/any", "current inv-eu"] {
            file.assert_can(&format!("{who} {on}"));
        }
        for on in [
            "next inv-eu",
            "current orders",
            "raise orders",
            "status",
            "admin",
        ] {
            file.assert_cannot(&format!("{who} {on}"));
        }
    }
    file.assert_can("--token-file ops.token admin");
    file.assert_cannot("--token-file ops.token metrics");
    for (question, words) in [
        ("--principal billing next", "next on what?"),
        (
            "--principal billing status orders",
            "is a right on the cluster",
        ),
        ("--principal billing next inv-*", "namespace name \"inv-*\""),
        (
            "--principal billing force orders",
            "use next, current, raise",
        ),
        ("--principal other status", "no principal \"other\""),
        (
            "--token-file auth.toml status",
            "auth.toml: it has several lines",
        ),
        ("status", "--token-file"),
    ] {
        file.expect_error(&format!("auth can auth.toml {question}"), 2, &[words]);
    }
}

#[test]
fn token_is_replaced_without_a_gap_and_is_in_its_file_only() {
    let file = TestFile::with_two();
    let comment = "# billing of the shop\n[[principal]]\nname = \"billing\"";
    let text = file
        .text("auth.toml")
        .replace("[[principal]]\nname = \"billing\"", comment);
    fs::write(file.path("auth.toml"), text).unwrap();
    let mut shown = file.run_ok("auth add auth.toml --principal billing --out b2.token");
    file.assert_can("--token-file b.token next orders");
    file.assert_can("--token-file b2.token next orders");
    let listed = file.run_ok("auth list auth.toml");
    let first = listed.trim_end().rsplit(' ').next().unwrap();
    shown += &file.run_ok(&format!(
        "auth remove auth.toml --principal billing --token {first}"
    ));
    file.expect_error(
        "auth can auth.toml --token-file b.token next orders",
        2,
        &["no principal has the token of b.token"],
    );
    file.assert_can("--token-file b2.token next orders");
    assert!(
        file.text("auth.toml").contains(comment),
        "{}",
        file.text("auth.toml")
    );

    shown += &file.run_ok("auth remove auth.toml --principal billing");
    assert!(
        !file.text("auth.toml").contains("billing"),
        "{}",
        file.text("auth.toml")
    );
    shown += &(listed + &file.text("auth.toml"));
    for name in ["ops.token", "b.token", "b2.token"] {
        let token = file.text(name);
        assert!(token.starts_with("sq_") && token.len() == 68, "{name}");
        assert!(!shown.contains(token.trim_end()), "{shown}");
    }
    assert!(!shown.contains("sq_"), "{shown}");
}

#[test]
fn change_that_is_rejected_leaves_everything_as_it_was() {
    let file = TestFile::with_two();
    let (before, token) = (file.text("auth.toml"), file.text("b.token"));
    for (change, words) in [
        (
            "add auth.toml --principal billing --raise orders --out x",
            "billing exists; edit its rights",
        ),
        (
            "add auth.toml --principal bill --out x",
            "no principal \"bill\"",
        ),
        (
            "add auth.toml --principal bill --out x",
            "a new one needs rights",
        ),
        ("add auth.toml --principal billing", "nothing to add"),
        (
            "add auth.toml --principal billing --out b.token",
            "a token is never overwritten",
        ),
        (
            "add new.toml --principal c --next a --out new.toml",
            "new.toml exists",
        ),
        (
            "add none/auth.toml --principal c --next a --out x",
            "a directory that exists",
        ),
        (
            "add auth.toml --principal c --next a --out none/x",
            "in none: it is no directory",
        ),
        (
            "add auth.toml --principal c --next a*b --out x",
            "no name fits this pattern",
        ),
        (
            "add auth.toml --principal c --current @ids/a --out x",
            "is not for families",
        ),
        (
            "add auth.toml --principal c --cluster root --out x",
            "status, metrics or admin",
        ),
        (
            "add auth.toml --principal a/b --next a --out x",
            "principal name",
        ),
        (
            "remove auth.toml --principal ops",
            "last principal with the right admin",
        ),
        (
            "remove auth.toml --principal other",
            "no principal \"other\"",
        ),
        (
            "remove auth.toml --principal billing --token 00000000",
            "not exactly one token",
        ),
        (
            "remove auth.toml --principal billing --token sq_12345",
            "use the digits",
        ),
        (
            "remove none.toml --principal a",
            "none.toml: cannot be read",
        ),
    ] {
        file.expect_error(&format!("auth {change}"), 2, &[words]);
        assert_eq!(file.text("auth.toml"), before, "{change}");
        assert_eq!(file.text("b.token"), token, "{change}");
        assert_eq!(file.count_files(), 3, "{change}");
    }
    // As long as another command has the directory.
    let lock = File::open(file.dir.path()).unwrap();
    lock.lock().unwrap();
    let change = "auth add auth.toml --principal c --next a --out x";
    file.expect_error(change, 1, &["another command changes", "try again"]);
    drop(lock);
    file.run_ok(change);
}

#[test]
fn file_that_no_server_would_accept_is_rejected_with_its_line() {
    let file = TestFile::with_two();
    let text = file.text("auth.toml");
    let cut = &text[..text.len() - 4];
    for (wrong, words) in [
        ("", "line 1: the file has no principal"),
        (cut, "not TOML"),
        (
            &text.replace("status", "statuses"),
            "line 4: a right on the cluster is",
        ),
        (&text.replace("sha256", "sha265"), "line 3: an unknown key"),
    ] {
        fs::write(file.path("auth.toml"), wrong).unwrap();
        for command in ["check auth.toml", "list auth.toml"] {
            file.expect_error(&format!("auth {command}"), 2, &["auth.toml: line ", words]);
        }
        if !wrong.is_empty() {
            let add = "auth add auth.toml --principal c --next a --out x";
            file.expect_error(add, 2, &[words]);
        }
        assert_eq!(file.text("auth.toml"), wrong);
    }
    fs::write(file.path("auth.toml"), [0xff]).unwrap();
    file.expect_error("auth check auth.toml", 2, &["auth.toml: cannot be read"]);
    file.expect_error("auth check none.toml", 2, &["none.toml: cannot be read"]);
    fs::write(file.path("auth.toml"), &text).unwrap();
    for mode in [0o644, 0o620] {
        fs::set_permissions(file.path("auth.toml"), Permissions::from_mode(mode)).unwrap();
        let words = [&*format!("mode {mode:04o}"), "chmod 600"];
        file.expect_error("auth check auth.toml", 2, &words);
        file.expect_error("auth remove auth.toml --principal billing", 2, &words);
    }
}

/// Schedule: root keeps the file for servers in a group, behind a link. After a change by root the
/// servers could read it no more, or read the old one.
#[test]
fn changed_file_keeps_its_group_its_mode_and_its_link() {
    let file = TestFile::with_two();
    let real = file.path("auth.toml");
    symlink("auth.toml", file.path("link.toml")).unwrap();
    let is_root = fs::metadata(&real).unwrap().uid() == 0;
    let (group, mode) = if is_root {
        (Some(1), 0o640)
    } else {
        (None, 0o600)
    };
    chown(&real, None, group).unwrap();
    fs::set_permissions(&real, Permissions::from_mode(mode)).unwrap();
    let before = fs::metadata(&real).unwrap();
    file.run_ok("auth add link.toml --principal c --next a --out c.token");
    file.run_ok("auth check link.toml");
    let after = fs::metadata(&real).unwrap();
    assert!(file.path("link.toml").is_symlink());
    assert_ne!(after.ino(), before.ino());
    assert_eq!(
        (after.uid(), after.gid(), after.mode()),
        (before.uid(), before.gid(), before.mode())
    );
    file.assert_can("--token-file c.token next a");
}
