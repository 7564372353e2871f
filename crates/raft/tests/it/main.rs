//! Nodes on real disks and real loopback gRPC.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod cluster;
mod common;
mod damage;
mod identity;
mod single;
