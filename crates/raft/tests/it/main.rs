//! Nodes on real disks and real loopback gRPC.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod cluster;
mod data_dir;
#[path = "../../src/tests/disk.rs"]
mod disk;
mod format_level;
mod hung_member;
mod identity;
mod membership;
mod restore;
mod reused_ids;
mod salvage;
mod single_node;
mod slow_link;
mod support;
