//! Nodes on real disks and real loopback gRPC.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod common;
mod single;
