//! The bare services, of this same binary.

use std::process::Command;

use super::{Failure, Server, address, dir};

/// A tonic service.
pub(crate) fn start() -> Result<Server, Failure> {
    serve("bare-serve")
}

/// A loop that speaks Redis's protocol.
pub(crate) fn start_resp() -> Result<Server, Failure> {
    serve("bare-resp")
}

/// An axum service.
pub(crate) fn start_http() -> Result<Server, Failure> {
    serve("bare-http")
}

fn serve(name: &str) -> Result<Server, Failure> {
    let this = std::env::current_exe().map_err(Failure::wrong)?;
    let address = address();
    let mut command = Command::new(this);
    command.args([name, "--listen", &address]);
    Server::start(command, address, dir()?)
}
