//! Ids of families.

pub(crate) mod family_holders;
pub(crate) mod worker_relay;
