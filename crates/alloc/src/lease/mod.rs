//! Registration and renewal of the lease.

pub(crate) mod address_check;
pub(crate) mod lease_keeper;
pub(crate) mod table_watcher;
