//! Scenarios of whole clusters: the release binary runs as real processes under load and faults.
//!
//! A scenario starts a [`ProcessCluster`](seqsvr_test_support::process_cluster::ProcessCluster),
//! opens a [`History`](seqsvr_test_support::history::History), runs
//! [`RecordedLoad`](seqsvr_test_support::recorded_load::RecordedLoad)s over pools of test keys,
//! injects a fault, waits for the expected conditions, stops the load and checks the history. It
//! sees the servers only through their ports, their files and their exit status.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a step of a scenario that fails is a test that fails"
)]

pub mod id_run;
pub mod scenario;
