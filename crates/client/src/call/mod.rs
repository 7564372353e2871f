//! Calls: one key or many, their attempts, and their retries.
//!
//! A call *locates* the key with the routing table (key -> section -> slot -> owner) and *attempts*
//! the request at one address. The client applies the routing table that a reply carries before it
//! reads the rest of the reply. `attempt/retry_decision.rs` decides once whether a failure is final
//! or worth a retry. A `RetryBudget` counts attempts, pauses and the deadline, and makes the final
//! error from them.
//!
//! ```text
//! next -------> key/            --locate--> routing/
//! next_batch -> batch/single_owner.rs (the usual call: one owner, one frame, no failure)
//!               batch/execution.rs --choose--> routing/server_set.rs (owner, or any while suspect)
//!                              --attempt-> pipe_attempt.rs  (next, current: merged in frames)
//!                                          unary_attempt.rs (the rest: a request of its own)
//!                              --retry---> retry_budget.rs  (pause, or the final error)
//! ```
//!
//! One attempt of items at one address is the seam: the modules below it do not handle routes and
//! retries.
//!
//! A retry of `next` never repeats a number: what a lost reply carried is discarded.

pub(crate) mod batch;
pub(crate) mod context;
pub(crate) mod first_contact;
pub(crate) mod key;
pub(crate) mod pipe_attempt;
pub(crate) mod retry_budget;
pub(crate) mod rpc;
pub(crate) mod sequence_call;
pub(crate) mod table_fetch;
pub(crate) mod unary_attempt;
