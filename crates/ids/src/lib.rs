//! Ids that carry the time in which they were made, without a store.
//!
//! The layout of an id is data of [`seqsvr_core::layout`]. An [`IdCodec`](codec::IdCodec) turns the
//! parts of an id into the id and back. The [presets] are those of known systems and packages. A
//! [generator] hands out ids of one worker, each once.
//!
//! What it may not know: disks, networks, tasks, the replicated state. Every reading of a clock
//! comes in as an argument.

pub mod codec;
pub mod generator;
pub mod opaque_numbers;
pub mod presets;
pub mod recognition;
mod rising_counter;
pub mod stamp;
pub mod text;
pub mod uuids;

pub use seqsvr_core::layout::InputError;
