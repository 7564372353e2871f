//! The release binary as a user runs it: bad input, load, addresses, directories, configuration,
//! completion, logs, memory, metrics, namespaces, jumps of numbers, restores, certificates.
//!
//! Each test starts processes of its own on free ports.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod bad_input;
mod commands;
mod config;
mod dev;
#[path = "../../../crates/raft/src/tests/disk.rs"]
mod disk;
mod files;
mod ids;
mod listen;
mod log;
mod memory;
mod metrics;
mod number_jumps;
mod simulation;
mod supervisor;
mod tls;
