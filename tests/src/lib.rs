//! Shared parts of the tests of whole clusters: the release binary as real processes ([`process`],
//! [`cluster`]), callers of the public contract ([`callers`]), and a load that records every call
//! it makes ([`recorded_load`], [`history`]) for the exact checker.
//!
//! A scenario starts a [`cluster::ProcessCluster`], opens a [`history::History`], runs
//! [`recorded_load::RecordedLoad`]s over pools of [`test_keys::TestKey`]s, injects a fault, waits
//! for the expected conditions, stops the load and checks the history. The scenarios are in
//! [`scenario`]. The library sees the servers only through their ports, their files and their exit
//! status. It never uses their internals.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a step of the harness that fails is a test that fails"
)]

pub mod bare_service;
pub mod build_variant;
pub mod callers;
pub mod cluster;
pub mod history;
pub mod process;
pub mod process_stats;
pub mod raw_http2;
pub mod recorded_load;
pub mod scenario;
pub mod skip_probe;
pub mod test_keys;
pub mod wait;
