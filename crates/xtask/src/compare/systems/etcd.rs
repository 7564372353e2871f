//! etcd, one member: half of what it takes where it is used, so no disadvantage.

use std::process::Command;

use super::{Failure, Server, address, dir, find, text};

pub(crate) fn start() -> Result<Server, Failure> {
    let etcd = find("etcd")?;
    let (client, peer, dir) = (address(), format!("http://{}", address()), dir()?);
    let url = format!("http://{client}");
    let mut command = Command::new(etcd);
    command
        .args(["--data-dir", &text(&dir.path().join("data"))])
        .args([
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
        ])
        .args([
            "--listen-peer-urls",
            &peer,
            "--initial-advertise-peer-urls",
            &peer,
        ])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(["--log-level", "error"]);
    Server::start(command, client, dir)
}
