//! The rules of seqsvr: no I/O, no async, no clock.
//!
//! What lives here: [ids], the [key] of a call, the [geometry] that maps a uid or key to a section
//! and a section to a slot, the replicated [`State`](state::State) with its
//! [commands](command), the [routing table](routing_table), [lease arithmetic](lease) over given
//! clock readings, the [grammar of addresses](server_address), the [layouts](layout) and
//! [families](family) of ids that carry the time, and the in-memory counters of a loaded section.
//!
//! How data passes through: StoreSvr feeds committed [`Batch`](command::Batch)es to
//! [`State::apply`](state::State::apply) and derives the routing table from the state; AllocSvr
//! builds a section from an `Opened` reply and hands out numbers from it while its
//! [lease] holds.
//!
//! What it may not know: disks, networks, tasks, Raft, wall time. Every instant and every random
//! number comes in as an argument, so the same code runs in production and in a simulation.

pub mod command;
pub mod family;
pub mod geometry;
pub mod huge_pages;
pub mod ids;
pub mod key;
pub mod layout;
pub mod lease;
pub mod namespace;
pub mod progression;
pub mod routing_table;
pub mod section;
pub mod server_address;
#[cfg(sim)]
pub mod sim;
pub mod state;

/// Returns whether a bug is planted here, for a simulation to find. Always false without `--cfg
/// sim`.
#[cfg(sim)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::sim::is_planted(stringify!($bug))
    };
}

/// Returns whether a bug is planted here, for a simulation to find. Always false without `--cfg
/// sim`.
#[cfg(not(sim))]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

/// A limit, which a simulation may lower so that a short run meets it. The usual one without `--cfg
/// sim`.
#[cfg(sim)]
#[macro_export]
macro_rules! limit {
    ($limit:ident) => {
        $crate::sim::limit(stringify!($limit), $limit)
    };
}

/// A limit, which a simulation may lower so that a short run meets it. The usual one without `--cfg
/// sim`.
#[cfg(not(sim))]
#[macro_export]
macro_rules! limit {
    ($limit:ident) => {
        $limit
    };
}

/// Counts in a simulation that this branch was reached. Nothing without `--cfg sim`.
#[cfg(sim)]
#[macro_export]
macro_rules! reached {
    ($branch:literal) => {
        $crate::sim::count_reached($branch)
    };
}

/// Counts in a simulation that this branch was reached. Nothing without `--cfg sim`.
#[cfg(not(sim))]
#[macro_export]
macro_rules! reached {
    ($branch:literal) => {};
}

/// Greatest number a sequence may reach, 2^63 - 1. A call beyond it gets a clear error, never a
/// wrap.
pub const SEQ_MAX: u64 = i64::MAX as u64;
