//! Calls: one key or many, their attempts, and their retries.

pub(crate) mod attempt_deadline;
pub(crate) mod attempt_error;
pub(crate) mod batch;
pub(crate) mod context;
pub(crate) mod decode;
pub(crate) mod key;
pub(crate) mod pipe_attempt;
pub(crate) mod retry_budget;
pub(crate) mod rpc;
pub(crate) mod sequence_call;
pub(crate) mod table_fetch;
pub(crate) mod unary_attempt;
pub(crate) mod wait_status;
