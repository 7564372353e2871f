//! The client SDK: sends each uid or key to the AllocSvr that owns it.
//!
//! What lives here: the [`Client`] with its calls, [`Admin`] for operators, and [`Channels`], the
//! kept connections that AllocSvr shares for forwarding.
//!
//! How data passes through: a call is *placed* with the routing table (key -> section -> slot ->
//! owner) and *tried* at one address. The client learns what the reply attaches to the table before
//! it reads the rest of the reply. A failure is judged once (`failure.rs`): final, or worth a
//! retry. A `Budget` counts tries, waits and the deadline and makes the final [`Error`] from them.
//!
//! ```text
//! next ----> keyed.rs --place--> table.rs
//! next_many> together.rs            (the usual call: one owner, one frame, no failure)
//!            many.rs  --choose-> servers.rs        (owner, or any server while it is suspect)
//!                     --try----> carry.rs -> pipe  (next, current: merged with all other calls)
//!                                attempt.rs        (the rest: a call of its own)
//!                     --again--> budget.rs         (pause, or the final error)
//! ```
//!
//! One try of items at one address is the seam: the modules below it do not handle routes and
//! retries.
//!
//! A retry of `next` never repeats a number: what a lost reply carried is burned.
//!
//! What it may not know: how numbers are made durable, leases, clocks other than the runtime's.

mod admin;
mod answer;
mod attempt;
mod batch;
mod budget;
mod carry;
mod channels;
mod client;
mod error;
mod failure;
mod item;
mod key;
mod keyed;
mod many;
mod options;
mod pipe;
mod routing;
mod rpc;
mod servers;
mod table;
mod together;
mod trouble;

pub use admin::{Admin, Alter, Backup};
pub use answer::{Current, CurrentKind, Numbers, Raised};
pub use channels::{BadAddress, CHANNELS_MAX, Channels, server_address};
pub use client::Client;
pub use error::{Details, Error};
pub use item::{Item, ItemKey};
pub use key::Key;
pub use options::{NextItem, NextOptions, Options};
pub use seqsvr_proto::v1::Reason;
pub use tonic::Code;
