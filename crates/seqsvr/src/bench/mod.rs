//! A load generator that verifies what it receives.
//!
//! How data passes through: a `Caller` waits for its turn (`pace`), draws keys (`keys`), asks (through
//! the SDK, by `unary` calls, or by `frames` of its own), has each range verified against all that came before (`verify`), and adds the call to the
//! `figures`; `effort` is what the cluster's own counters say it took, and `report`
//! puts it all into words.

pub(crate) mod caller;
pub(crate) mod effort;
pub(crate) mod figures;
pub(crate) mod frames;
mod holes;
pub(crate) mod keys;
pub(crate) mod pace;
pub(crate) mod plain;
pub(crate) mod report;
mod unary;
pub(crate) mod verify;
