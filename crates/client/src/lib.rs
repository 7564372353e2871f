//! The client SDK: sends each uid or key to the AllocSvr that owns it.
//!
//! What lives here: the [`Client`] with its calls, and [`Admin`] for operators.
//!
//! How data passes through: a call *locates* the key with the routing table (key -> section -> slot
//! -> owner) and *attempts* the request at one address. The client applies the routing table that a
//! reply carries before it reads the rest of the reply. `call/attempt_error.rs` decides once
//! whether a failure is final or worth a retry. A `RetryBudget` counts attempts, pauses and the
//! deadline and makes the final [`Error`] from them.
//!
//! ```text
//! next ------> call/key/single.rs   --locate--> routing/
//! next_many -> call/batch/single_owner.rs (the usual call: one owner, one frame, no failure)
//!              call/batch/execution.rs --choose--> routing/server_set.rs ((owner, or any while
//!                                                  suspect))
//!                            --attempt-> call/pipe_attempt.rs  (next, current: merged in frames)
//!                                        call/unary_attempt.rs (the rest: a request of its own)
//!                            --retry---> call/retry_budget.rs  (pause, or the final error)
//! ```
//!
//! One attempt of items at one address is the seam: the modules below it do not handle routes and
//! retries.
//!
//! A retry of `next` never repeats a number: what a lost reply carried is burned.
//!
//! What it may not know: how numbers are made durable, leases, clocks other than the runtime's.

mod admin;
mod batch_item;
mod call;
mod client;
mod client_core;
mod error;
mod key;
mod options;
mod pipe;
mod routing;
mod types;

pub use admin::{Admin, Alter, BackupStream};
pub use batch_item::{BatchItem, BatchItemKey, NextItem};
pub use client::Client;
pub use error::{Details, Error};
pub use key::Key;
pub use options::{NextOptions, Options};
pub use seqsvr_proto::v1::Reason;
pub use tonic::Code;
pub use types::{Current, CurrentKind, IssuedRange, Raised};
