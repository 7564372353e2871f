//! Completion scripts: each shell can parse its script, and bash completes with its own.
//!
//! Runs the shells that are installed; no server is needed.

use std::path::Path;
use std::process::Command;

use crate::dev::{command, fails};

fn script(shell: &str) -> String {
    // The command needs no configuration file, so a bad one is ignored.
    let mut completion = command(&["completion", shell]);
    let output = completion.env("SEQSVR_CONFIG", "/no/such/file").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns bash's completions after these words, with the script in this file.
fn completed(script: &Path, words: &[&str]) -> String {
    let (last, before) = words.split_last().unwrap();
    let asked = format!(
        "source {}
         COMP_WORDS=({}); COMP_CWORD={}
         _seqsvr seqsvr {last:?} {:?}
         echo \"${{COMPREPLY[*]}}\"",
        script.display(),
        words.join(" "),
        words.len() - 1,
        before.last().unwrap(),
    );
    let mut bash = Command::new("bash");
    let output = bash.args(["--norc", "-c", &asked]).output().unwrap();
    assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn bash_completes_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script");
    std::fs::write(&file, script("bash")).unwrap();
    let Ok(read) = Command::new("bash").arg("-n").arg(&file).status() else {
        return println!("SKIPPED: no bash");
    };
    assert!(read.success());
    assert_eq!(completed(&file, &["seqsvr", "nam"]), "namespace");
    assert_eq!(completed(&file, &["seqsvr", "namespace", "cr"]), "create");
    assert_eq!(
        completed(&file, &["seqsvr", "alloc", "--stat"]),
        "--state-dir"
    );
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(script(shell).contains("raise-to"), "{shell}");
    }
    let said = fails(command(&["completion", "dash"]), 2);
    assert!(said.contains("possible values: bash"), "{said}");
}
