//! Tasks that act by themselves while this store leads.

pub(crate) mod arbiter_driver;
pub(crate) mod clock_requests;
