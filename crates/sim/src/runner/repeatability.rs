//! Proves that a seed repeats: the hash over all events does not depend on where a plan runs.

use std::process::Command;
use std::thread;

use seqsvr_core::sim::{hash_text, mix_bits};

use super::plan_runner::run_plan_in_thread;
use crate::plan::draw_plan;

/// Runs each seed once in this process, then in two threads at once, then in another process with
/// another environment, and compares the hashes.
///
/// # Errors
/// If hashes differ or a run fails.
pub fn check_repeatability(base: &str, seeds: u64, faults_ms: u64) -> Result<(), String> {
    for n in 0..seeds {
        let seed = mix_bits(hash_text(base), n);
        let hash_of = || run_plan_in_thread(&draw_plan(seed, faults_ms), false).map(|run| run.hash);
        let first = hash_of()?;
        let (first_thread, second_thread) = thread::scope(|scope| {
            let first_thread = scope.spawn(hash_of);
            (hash_of(), first_thread.join())
        });
        let second_thread = second_thread.map_err(|_| format!("seed {seed}: a run panicked"))?;
        let other_process = hash_in_another_process(seed, faults_ms)?;
        let hashes = [first, first_thread?, second_thread?, other_process];
        if hashes.iter().any(|hash| *hash != first) {
            return Err(format!(
                "seed {seed} does not repeat: hashes {hashes:016x?}"
            ));
        }
    }
    println!("{seeds} seeds repeat in two threads and in another process");
    Ok(())
}

fn hash_in_another_process(seed: u64, faults_ms: u64) -> Result<u64, String> {
    let binary = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new(binary)
        .args(["--seed", &seed.to_string()])
        .args(["--faults-ms", &faults_ms.to_string()])
        .env_clear()
        .env("HOME", "/nowhere")
        .env("TZ", "Asia/Kathmandu")
        .env("FILLER", "f".repeat(3_000))
        .current_dir("/")
        .output()
        .map_err(|e| format!("cannot run seed {seed} in another process: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let word = text.split("hash ").nth(1).and_then(|rest| rest.get(..16));
    word.and_then(|word| u64::from_str_radix(word, 16).ok())
        .ok_or_else(|| format!("seed {seed} failed in another process:\n{text}"))
}
