//! The commands about ids that carry the time.

pub(super) mod decode;
mod decoded_id;
pub(super) mod new;
pub(super) mod opaque;
pub(super) mod stats;
