//! Requests for one or many keys, and their answers.

pub(crate) mod item;
pub(crate) mod request;
pub(crate) mod request_context;
pub(crate) mod response;
pub(crate) mod validate;
