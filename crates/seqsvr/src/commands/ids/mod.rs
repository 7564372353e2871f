//! The commands about ids that carry the time.

pub(super) mod stats;
