//! What the tests of whole clusters share: the real binary as real processes ([`process`],
//! [`cluster`]), callers of the public contract ([`caller`]), and a load that records every call it
//! makes ([`load`], [`history`]) for the exact checker.
//!
//! The way through: a scenario starts a [`cluster::Cluster`], opens a [`history::History`], lets
//! [`load::Load`]s run over pools of [`subject`]s, breaks something, waits for what must come,
//! stops the load and has the history checked; the scenarios are in [`scenario`]. What it may not
//! know: anything inside the servers; it sees them through their ports, their files and their exit.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a step of the harness that fails is a test that fails"
)]

pub mod caller;
pub mod cluster;
pub mod door;
pub mod floor;
pub mod history;
pub mod load;
pub mod plain;
pub mod probe;
pub mod process;
pub mod raw;
pub mod scenario;
pub mod subject;
pub mod variant;
pub mod vitals;
pub mod wait;
