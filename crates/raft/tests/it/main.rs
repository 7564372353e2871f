//! Nodes on real disks and real loopback gRPC.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

mod cluster;
mod common;
mod copies;
mod damage;
#[path = "../../src/tests/disk.rs"]
mod disk;
mod disks_live;
mod disks_older;
mod disks_start;
mod disks_swapped;
mod disks_sync;
mod identity;
mod levels;
mod links;
mod members;
mod members_hung;
mod restore;
mod salvage;
mod senders;
mod single;
mod slow_link;
