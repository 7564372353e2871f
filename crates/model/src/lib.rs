//! The protocol of the design's sections 4 and 5, and the grants of ids, as models that are checked
//! exhaustively (`docs/dev/model.md`). [`run_checks`] is what `cargo xtask model` runs.
//!
//! The model is a second, independent reading of the design. It would be worth nothing if it shared
//! code with the running system, so this crate depends on no other crate of the project.
//!
//! Modules, lowest first:
//! - `parameters`: durations and how clocks behave.
//! - `rules`: the switches of the protocol, the promises, and what breaks without each rule.
//! - `world`: the whole state. `replicated_state` applies commands, `store_node` is the memory of a
//!   StoreSvr, `alloc_process` that of an AllocSvr, `caller_ledger` what callers have seen.
//! - `scenario`: bounds, and the situations that must be reached within them.
//! - `protocol`: the actions of all machines, and the stateright model.
//! - `grants`: the model of ids that carry the time, with its own world and scenarios.
//! - `checker` checks one scenario, `runner` checks all and prints a table for each model.
//!
//! Two choices keep the state small without losing schedules. A message once sent stays deliverable
//! without end, so lost, duplicated, delayed and reordered messages are all the same set. And every
//! guard on time only *permits*: a lease may be used while it is valid, a session may be expired
//! after W, and neither must happen. So the slowest owner clock against the fastest arbiter clock
//! has every behavior of all clocks between them, and one tick moves both.

mod checker;
mod grants;
mod parameters;
mod protocol;
mod rules;
mod runner;
mod scenario;
mod world;

#[cfg(test)]
mod tests;

pub use runner::{Options, run_checks};
