//! The commands that run servers, and `init`, which creates a cluster of them.

pub(super) mod alloc;
pub(super) mod dev;
mod dev_certificates;
mod dev_family;
mod dev_ports;
pub(super) mod init;
pub(super) mod store;
