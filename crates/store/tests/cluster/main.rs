//! Real stores in one process, over real gRPC and real disk.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests: clippy allows it only inside test functions"
)]

mod admin;
mod alloc;
mod harness;
mod one_store;
mod three_stores;
