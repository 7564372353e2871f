//! Deterministic simulation of whole clusters. The code of core, store, alloc, client and raft is
//! the real one; one seed decides time, network, disks and randomness. See
//! `docs/dev/simulation.md`.

#![cfg(sim)]

#[cfg(not(tokio_unstable))]
compile_error!("a simulation seeds tokio's generator: build it with `cargo xtask sim`");

mod clients;
mod cluster;
pub mod command;
mod event_trace;
mod faults;
mod judges;
mod libc_shim;
mod machine;
mod network;
pub mod plan;
mod planted_bugs;
mod random_stream;
pub mod runner;
mod world;
