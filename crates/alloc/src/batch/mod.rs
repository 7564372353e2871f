//! Requests about one or many keys, and the answers to them.

pub(crate) mod item;
pub(crate) mod request;
pub(crate) mod request_context;
pub(crate) mod response;
pub(crate) mod validate;
