//! Instructions that a number takes in memory, counted by Valgrind: unlike times they repeat, to the last
//! digit on one build, whatever else the machine does.
//!
//! Each way is run with two lengths and the difference counted, so that start and end cancel out.

use std::path::Path;
use std::process::Command;

use seqsvr_tests::process::build_of;

/// Ways of `crates/core/examples/counters.rs`, and what they are.
const WAYS: [(&str, &str); 3] = [
    ("one-by-one", "a dense section, a number after the other"),
    ("in-blocks", "a dense section, 64 looked up together"),
    ("keyed", "keys of 20 bytes, 64 looked up together"),
];
/// Frames of the two runs, and the numbers of a frame.
const FRAMES: (u64, u64) = (10, 60);
const FRAME: u64 = 1_024;

/// Prints a table in Markdown.
///
/// # Errors
/// Without Valgrind, and if the example does not run.
pub fn run() -> Result<(), String> {
    let found = Command::new("valgrind").arg("--version").output();
    let version = found.map_err(|error| {
        format!("valgrind does not run ({error}): install it, for example with `apt-get install valgrind`")
    })?;
    let args = ["-p", "seqsvr-core", "--release", "--example", "counters"];
    let example = build_of("counters", &args);
    println!("{}\n", String::from_utf8_lossy(&version.stdout).trim());
    println!("| way | instructions a number |\n|---|---|");
    for (way, about) in WAYS {
        let more = count(&example, way, FRAMES.1)?.saturating_sub(count(&example, way, FRAMES.0)?);
        let each = more as f64 / ((FRAMES.1 - FRAMES.0) * FRAME) as f64;
        println!("| {about} | {each:.1} |");
    }
    Ok(())
}

/// Instructions of a whole run.
fn count(example: &Path, way: &str, frames: u64) -> Result<u64, String> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(example)
        .args([way, &frames.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let counted = said.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected : ")?;
        count.trim().parse().ok()
    });
    counted.ok_or_else(|| format!("callgrind counted nothing:\n{said}"))
}
