//! `cargo xtask sim`: builds and runs the simulation (`crates/sim`). It needs compiler flags and
//! therefore a target directory of its own.

use seqsvr_test_support::cargo::cargo_command;

/// Runs the simulation with these arguments. Returns whether it succeeded.
///
/// # Errors
/// Cargo cannot be started.
pub fn run_simulation(arguments: &[String]) -> Result<bool, String> {
    let status = cargo_command()
        .args(["run", "--quiet", "--locked", "--profile", "sim"])
        .args(["-p", "seqsvr-sim", "--"])
        .args(arguments)
        .env("RUSTFLAGS", "--cfg sim --cfg tokio_unstable")
        .env("CARGO_TARGET_DIR", "target/sim")
        .status();
    let status = status.map_err(|e| format!("cannot start cargo: {e}"))?;
    Ok(status.success())
}
