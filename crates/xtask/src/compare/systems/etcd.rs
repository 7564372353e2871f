//! etcd with one member. A group of three members does more work for each write, so one member is
//! no disadvantage for etcd.

use std::process::Command;

use super::program::{find_program, free_address, make_temp_dir, to_arg};
use super::system_process::SystemProcess;
use crate::compare::error::CompareError;

/// Starts an etcd of one member.
pub(crate) fn start_etcd() -> Result<SystemProcess, CompareError> {
    let etcd = find_program("etcd")?;
    let (client, peer) = (free_address(), format!("http://{}", free_address()));
    let (url, dir) = (format!("http://{client}"), make_temp_dir()?);
    let mut command = Command::new(etcd);
    command
        .args(["--data-dir", &to_arg(&dir.path().join("data"))])
        .args(["--listen-client-urls", &url])
        .args(["--advertise-client-urls", &url])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(["--log-level", "error"]);
    SystemProcess::start(command, client, dir)
}
