//! Deterministic simulation of whole clusters. The code of core, store, alloc, client and raft is
//! the real one; one seed decides time, network, disks and randomness. See `docs/simulation.md`.

#![cfg(sim)]

#[cfg(not(tokio_unstable))]
compile_error!("a simulation seeds tokio's generator: build it with `cargo xtask sim`");

mod callers;
mod clock;
mod cluster;
pub mod command;
mod faults;
mod judge;
mod meta;
mod net;
mod operator;
pub mod plan;
mod planted;
mod process;
mod reached;
mod record;
pub mod run;
mod shim;
mod sweep;
mod trace;
mod world;
