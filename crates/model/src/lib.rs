//! The protocol of the design's sections 4 and 5 as a model that is checked exhaustively.
//!
//! Parts: [`store`] is the replicated state and `apply`; [`leaders`] two StoreSvr nodes that lead
//! or believe so, with the arbiter and `renewals`; [`alloc_process`] the AllocSvr processes, with
//! `sections` and `calls`; `clusters` another cluster at the same addresses; [`ledger`] what
//! callers saw; [`world`] puts them together as a stateright model; [`scenario`] bounds it and
//! [`coverage`] says what it must come to; [`rules`] are the switches, [`rule_removals`] what must go
//! wrong without each; [`runner`] checks and prints.
//!
//! Two choices keep the state small without losing schedules. A message once sent stays
//! deliverable for ever, so lost, duplicated, delayed and reordered are all the same set. And
//! every guard on time only ever *permits* (a lease may be used while valid, a session may be
//! expired after W; neither must), so the slowest owner clock against the fastest arbiter clock
//! has every behaviour of all clocks between them: one tick moves both.

pub mod alloc_process;
mod calls;
mod clusters;
pub mod coverage;
pub mod leaders;
pub mod ledger;
mod renewals;
pub mod rule_removals;
pub mod rules;
pub mod runner;
pub mod scenario;
mod sections;
pub mod store;
pub mod world;

#[cfg(test)]
mod tests;
