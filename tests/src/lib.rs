//! Shared parts of the tests of whole clusters: the release binary as real processes ([`process`],
//! [`cluster`]), callers of the public contract ([`caller`]), and a load that records every call it
//! makes ([`load`], [`history`]) for the exact checker.
//!
//! A scenario starts a [`cluster::Cluster`], opens a [`history::History`], runs [`load::RecordedLoad`]s
//! over pools of [`subject::TestKey`]s, injects a fault, waits for the expected conditions, stops the load
//! and checks the history. The scenarios are in [`scenario`]. The library sees the servers only
//! through their ports, their files and their exit status. It never uses their internals.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a step of the harness that fails is a test that fails"
)]

pub mod caller;
pub mod cluster;
pub mod door;
pub mod floor;
pub mod history;
pub mod load;
pub mod plain;
pub mod probe;
pub mod process;
pub mod raw;
pub mod scenario;
pub mod subject;
pub mod variant;
pub mod vitals;
pub mod wait;
