//! Workers: they make calls, one for each caller or one for all callers of a connection.

pub(crate) mod call_worker;
pub(crate) mod direct_client;
pub(crate) mod id_worker;
pub(crate) mod pipe_worker;
