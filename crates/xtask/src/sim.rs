//! `cargo xtask sim`: builds and runs the simulation (`crates/sim`). It needs compiler flags and
//! therefore a target directory of its own.

use std::process::Command;

/// Runs the simulation with these arguments. Returns whether it succeeded.
///
/// # Errors
/// Cargo cannot be started.
pub fn run_simulation(arguments: &[String]) -> Result<bool, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--locked", "--profile", "sim"])
        .args(["-p", "seqsvr-sim", "--"])
        .args(arguments)
        .env("RUSTFLAGS", "--cfg sim --cfg tokio_unstable")
        .env("CARGO_TARGET_DIR", "target/sim")
        .status();
    let status = status.map_err(|e| format!("cannot start cargo: {e}"))?;
    Ok(status.success())
}
