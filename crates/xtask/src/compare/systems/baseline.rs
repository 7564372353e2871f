//! The baseline services, served by this same binary.

use std::process::Command;

use super::program::{free_address, make_temp_dir};
use super::system_process::SystemProcess;
use crate::compare::error::CompareError;

/// Starts the baseline tonic service.
pub(crate) fn start_grpc() -> Result<SystemProcess, CompareError> {
    start_baseline("grpc")
}

/// Starts the baseline loop of the Redis protocol.
pub(crate) fn start_resp() -> Result<SystemProcess, CompareError> {
    start_baseline("resp")
}

/// Starts the baseline axum service.
pub(crate) fn start_http() -> Result<SystemProcess, CompareError> {
    start_baseline("http")
}

fn start_baseline(protocol: &str) -> Result<SystemProcess, CompareError> {
    let this_binary = std::env::current_exe().map_err(CompareError::failed)?;
    let address = free_address();
    let mut command = Command::new(this_binary);
    command.args(["baseline", protocol, "--listen", &address]);
    SystemProcess::start(command, address, make_temp_dir()?)
}
