//! Ids of families.

pub(crate) mod worker_relay;
