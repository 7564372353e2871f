//! Calls about one key.

pub(crate) mod key_call;
pub(crate) mod single;
