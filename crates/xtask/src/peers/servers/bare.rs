//! The bare tonic service, of this same binary.

use std::process::Command;

use super::{Failure, Server, address, dir};

pub(crate) fn start() -> Result<Server, Failure> {
    let this = std::env::current_exe().map_err(Failure::wrong)?;
    let address = address();
    let mut command = Command::new(this);
    command.args(["bare-serve", "--listen", &address]);
    Server::start(command, address, dir()?)
}
