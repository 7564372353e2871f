//! A load generator that verifies what it receives.
//!
//! How data passes through: a `Caller` waits for its turn (`pace`), draws keys (`keys`) and asks,
//! through the SDK or by `unary` calls; or a `Piper` does so for all callers of a connection, by
//! frames of one Pipe. The `checker` has each range verified against all that came before
//! (`verify`) and adds the call to the `figures`; `effort` is what the cluster's own counters say
//! it took, and `report` puts it all into words.

pub(crate) mod caller;
pub(crate) mod checker;
pub(crate) mod effort;
pub(crate) mod figures;
mod holes;
pub(crate) mod keys;
pub(crate) mod pace;
pub(crate) mod piper;
pub(crate) mod plain;
pub(crate) mod report;
mod unary;
pub(crate) mod verify;
