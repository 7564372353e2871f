//! Commands about ids, which need no server.

mod new;
mod opaque;

use crate::dev::{clean_command, expect_failure};

fn run_ok(args: &[&str]) -> String {
    let output = clean_command(args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn assert_bad_input(args: &[&str], words: &[&str]) {
    let text = expect_failure(clean_command(args), 2);
    for word in words {
        assert!(text.contains(word), "{args:?} says {text:?}");
    }
}
