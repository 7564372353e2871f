//! `cargo xtask fuzz`: runs the parsers of callers' bytes and of ids under libFuzzer, which is
//! guided by the code that an input reaches.
//!
//! The ordinary toolchain builds the targets, with a C++ compiler for libFuzzer: rustc contains the
//! passes that count reached code. `tests/fuzz/corpus` keeps inputs of earlier runs, and
//! `tests/fuzz/artifacts` keeps inputs that made a target panic.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Names of the fuzz targets.
pub const TARGETS: [&str; 4] = ["redis", "http", "grpc", "ids"];

/// Longest input, in bytes.
const INPUT_BYTES_MAX: &str = "-max_len=4096";

const RUSTFLAGS: &str = "--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs the targets with these names, or all targets if there are no names, each for this time.
/// Returns false if a target failed.
///
/// # Errors
/// No target has one of the names, or a target cannot be started.
pub fn run_targets(only: &[String], time: Duration) -> Result<bool, String> {
    if let Some(unknown) = only.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        return Err(format!(
            "no target has the name {unknown}; choose one of {}",
            TARGETS.join(", ")
        ));
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz");
    let is_selected = |target: &&str| only.is_empty() || only.iter().any(|name| name == target);
    let mut passed = true;
    for target in TARGETS.into_iter().filter(is_selected) {
        let (corpus, artifacts) = (dir.join("corpus").join(target), dir.join("artifacts"));
        for folder in [&corpus, &artifacts] {
            std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
        }
        println!("== {target}, {time:?}");
        let status = Command::new(env!("CARGO"))
            .args(["run", "--release", "--bin", target])
            // With `--target`, build scripts are built without the flags below.
            .args(["--target", &host_triple()?, "--"])
            .arg(&corpus)
            .arg(format!("-max_total_time={}", time.as_secs()))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args([INPUT_BYTES_MAX, "-timeout=10", "-print_final_stats=1"])
            .env("RUSTFLAGS", RUSTFLAGS)
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .current_dir(&dir)
            .status()
            .map_err(|e| e.to_string())?;
        passed &= status.success();
    }
    Ok(passed)
}

fn host_triple() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output
        .map_err(|e| format!("cannot start rustc: {e}"))?
        .stdout;
    let output = String::from_utf8_lossy(&output).into_owned();
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` printed no host".to_owned())
}
