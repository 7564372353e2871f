//! `cargo xtask fuzz`: what reads callers' bytes, under libFuzzer, guided by what it reaches.
//!
//! Built by the ordinary toolchain (and a C++ compiler, for libFuzzer): the passes that count what
//! is reached are in it. What was found before is kept in `tests/fuzz/corpus`, and what made a
//! target panic in `tests/fuzz/artifacts`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What there is to run.
pub const TARGETS: [&str; 3] = ["redis", "http", "grpc"];

/// Longest input, bytes.
const LENGTH_MAX: &str = "-max_len=4096";

const FLAGS: &str = "--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs these targets, or all, for so long each. False: one of them found something.
///
/// # Errors
/// A name that is no target; what cannot be run.
pub fn run(only: &[String], time: Duration) -> Result<bool, String> {
    if let Some(unknown) = only.iter().find(|name| !TARGETS.contains(&name.as_str())) {
        return Err(format!(
            "no target is named {unknown}; there are {}",
            TARGETS.join(", ")
        ));
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz");
    let chosen = |name: &&str| only.is_empty() || only.iter().any(|one| one == name);
    let mut fine = true;
    for target in TARGETS.into_iter().filter(chosen) {
        let (corpus, artifacts) = (dir.join("corpus").join(target), dir.join("artifacts"));
        for made in [&corpus, &artifacts] {
            std::fs::create_dir_all(made).map_err(|e| e.to_string())?;
        }
        println!("== {target}, {time:?}");
        let status = Command::new(env!("CARGO"))
            .args(["run", "--release", "--bin", target])
            // With a target named, the flags are not those of build scripts.
            .args(["--target", &host()?, "--"])
            .arg(&corpus)
            .arg(format!("-max_total_time={}", time.as_secs()))
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args([LENGTH_MAX, "-timeout=10", "-print_final_stats=1"])
            .env("RUSTFLAGS", FLAGS)
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .current_dir(&dir)
            .status()
            .map_err(|e| e.to_string())?;
        fine &= status.success();
    }
    Ok(fine)
}

fn host() -> Result<String, String> {
    let said = Command::new("rustc").arg("-vV").output();
    let said = said.map_err(|e| format!("rustc: {e}"))?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc does not tell its host".to_owned())
}
