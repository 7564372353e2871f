//! Real stores in one process, over real gRPC and real disk.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: clippy allows it only inside test functions"
)]

mod admin;
mod fake_alloc;
mod one_store;
mod store_cluster;
mod three_stores;
