//! What documents name exists.

pub(super) mod names;
pub(super) mod paths;
