//! Registration and renewal of the lease.

pub(crate) mod address_check;
mod cluster_record;
pub(crate) mod lease_keeper;
pub(crate) mod table_watcher;
