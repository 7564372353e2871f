//! Real stores in one process, over real gRPC and real disk.
//!
//! Leases and elections are short, so that the tests wait for expiries instead of mocking clocks.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: clippy allows it only inside test functions"
)]

mod addresses;
mod admin;
mod fake_alloc;
mod one_store;
#[path = "../../../net/tests/support/pki.rs"]
mod pki;
mod raft_senders;
mod secured_stores;
mod senders;
mod store_cluster;
mod three_stores;
