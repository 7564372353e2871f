//! tsoracle with its file driver.

use std::process::Command;

use super::program::{find_program, free_address, make_temp_dir, to_arg};
use super::system_process::SystemProcess;
use crate::compare::error::CompareError;

/// Starts a tsoracle.
pub(crate) fn start_tsoracle() -> Result<SystemProcess, CompareError> {
    let tsoracle = find_program("tsoracle")?;
    let (address, dir) = (free_address(), make_temp_dir()?);
    let mut command = Command::new(tsoracle);
    command
        .args(["serve", "file", "--listen", &address])
        .args(["--state-dir", &to_arg(&dir.path().join("data"))]);
    SystemProcess::start(command, address, dir)
}
