//! What tests of whole clusters share: the release binary as real processes ([`process`],
//! [`process_cluster`]), callers of the public contract ([`callers`]), and a load that records
//! every call it makes ([`recorded_load`], [`history`]) for the exact checker.
//!
//! The modules for processes see the servers only through their ports, their files and their exit
//! status. [`in_process`] runs servers in the process of the test, so that it can control their
//! clocks and networks.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a step of the harness that fails is a test that fails"
)]

pub mod bare_service;
pub mod build_variant;
pub mod callers;
pub mod cargo;
pub mod history;
pub mod in_process;
pub mod process;
pub mod process_cluster;
pub mod process_stats;
pub mod raw_http2;
pub mod recorded_load;
pub mod skip_probe;
pub mod test_keys;
pub mod wait;
