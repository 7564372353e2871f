//! Real clusters within this process: stores and AllocSvrs over loopback gRPC and real disk.
//!
//! These tests show what processes cannot: counters before and after, clocks that jump or stop,
//! links that are cut at a chosen moment. The target `processes` kills processes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

mod away;
mod background;
mod bad_input;
mod clock;
mod guard;
mod harness;
mod history;
mod http;
mod items;
mod lease;
mod life;
mod limits;
mod link;
mod memory_net;
mod moves;
mod operators;
mod other_cluster;
mod overload;
mod page;
mod pipe;
mod raise_to;
mod raises;
mod redis;
mod routing;
mod standard;
mod start;
mod step_boundary;
mod strict;
mod transport;
