//! tsoracle with its file driver.

use std::process::Command;

use super::{Failure, Server, address, dir, find, text};

pub(crate) fn start() -> Result<Server, Failure> {
    let tsoracle = find("tsoracle")?;
    let (address, dir) = (address(), dir()?);
    let mut command = Command::new(tsoracle);
    command
        .args(["serve", "file", "--listen", &address])
        .args(["--state-dir", &text(&dir.path().join("data"))]);
    Server::start(command, address, dir)
}
