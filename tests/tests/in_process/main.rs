//! Real clusters within this process: stores and AllocSvrs over loopback gRPC and real disk.
//!
//! These tests show what processes cannot: counters before and after, clocks that jump or stop,
//! links that are cut at a chosen moment. The target `processes` kills processes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

mod bounds;
mod endpoints;
mod ownership;
mod windows;
