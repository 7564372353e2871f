//! Generators of ids: which tick, lane and sequence a caller receives.
//!
//! - [`WorkerGenerator`]: one worker within a grant of ticks, for holders of a grant.
//! - [`Clocked`]: one process without a store, with a clock and one of six policies.
//! - `positions`: the atomic word of both; its head has the argument for uniqueness.
//! - [`Splicer`]: positions become ids. [`WorkerSource`]: worker numbers without a store.
//!
//! Played under loom in `tests/loom_generator.rs`.
//!
//! One process without a store takes ids of worker 3 like this; `clock` is a [`TickClock`]:
//!
//! ```
//! # use std::num::NonZeroU32;
//! use seqsvr_ids::generator::{Clocked, Hold, SequenceStart, Splicer, TickClock};
//!
//! # fn take(clock: &impl TickClock) -> Result<Vec<u64>, Box<dyn std::error::Error>> {
//! let splicer = Splicer::new(&"0:1,time:41,worker:10,seq:12".parse()?, 0, 3, 0)?;
//! let generator = Clocked::new(splicer.grid(), SequenceStart::Zero, Hold, 0);
//! let count = NonZeroU32::new(100).ok_or("none")?;
//! let run = generator.take_waiting(count, clock)?;
//! let mut ids = vec![0; run.count as usize];
//! splicer.fill(run, &mut ids);
//! # Ok(ids)
//! # }
//! ```
//!
//! Pure memory: no I/O, no clock inside. A take is one atomic change of one word, without an
//! allocation. Only a change of the lane takes a lock.

mod clocked;
mod no_id;
mod policy;
mod positions;
mod progress;
mod run;
mod sequence_start;
mod splicer;
mod sync;
mod tick_grid;
mod worker_generator;
mod worker_source;

#[cfg(all(test, not(loom)))]
mod tests;

pub use clocked::{Clocked, TickClock};
pub use no_id::NoId;
pub use policy::{
    Ahead, ClockPolicy, Hold, LaneChoice, Refuse, Rejection, RollbackBits, Timelines, Wait,
};
pub use progress::Progress;
pub use run::Run;
pub use sequence_start::SequenceStart;
pub use splicer::Splicer;
pub use tick_grid::TickGrid;
pub use worker_generator::WorkerGenerator;
pub use worker_source::WorkerSource;
