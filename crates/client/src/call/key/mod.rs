//! Calls about one key.

pub(crate) mod single;
