//! What an id without a preset can be.
//!
//! The time of an id is the evidence: most presets read another one's ids as a time before there
//! were such ids, or in the future. Several presets may remain, so the answer is always a list.

mod candidates;
mod javascript;
mod uuid_reading;
mod wide_id;

pub use candidates::{IdCandidate, OLDEST_MS, find_candidates, is_plausible_time};
pub use javascript::is_maybe_rounded;
pub use uuid_reading::{UuidMeaning, UuidReading, read_uuid};
pub use wide_id::{find_wide_candidate, narrow_id};

#[cfg(test)]
mod tests;
