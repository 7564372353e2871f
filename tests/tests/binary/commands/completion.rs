//! Completion scripts: each shell can parse its script, and bash completes with its own.
//!
//! Runs the shells that are installed; no server is needed.

use std::path::Path;
use std::process::Command;

use crate::dev::{clean_command, expect_failure};

fn completion_of(shell: &str) -> String {
    // The command needs no configuration file, so a bad one is ignored.
    let mut completion = clean_command(&["completion", shell]);
    let output = completion.env("SEQSVR_CONFIG", "/no/such/file").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{shell}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns bash's completions after these words, with the script in this file.
fn complete_in_bash(script: &Path, words: &[&str]) -> String {
    let (last, before) = words.split_last().unwrap();
    let completion_script = format!(
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
    let output = bash
        .args(["--norc", "-c", &completion_script])
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn bash_completes_commands_and_flags() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("script");
    std::fs::write(&file, completion_of("bash")).unwrap();
    let Ok(read) = Command::new("bash").arg("-n").arg(&file).status() else {
        return println!("SKIPPED: no bash");
    };
    assert!(read.success());
    assert_eq!(complete_in_bash(&file, &["seqsvr", "nam"]), "namespace");
    assert_eq!(
        complete_in_bash(&file, &["seqsvr", "namespace", "cr"]),
        "create"
    );
    assert_eq!(complete_in_bash(&file, &["seqsvr", "id", "nex"]), "next");
    assert_eq!(
        complete_in_bash(&file, &["seqsvr", "alloc", "--stat"]),
        "--state-dir"
    );
}

#[test]
fn completion_scripts_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(completion_of(shell).contains("raise-to"), "{shell}");
    }
    let errors_text = expect_failure(clean_command(&["completion", "dash"]), 2);
    assert!(
        errors_text.contains("possible values: bash"),
        "{errors_text}"
    );
}
