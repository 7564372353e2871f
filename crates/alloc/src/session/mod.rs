//! The session of this process, its lease and the routing table it serves by.

pub(crate) mod current_session;
mod encoded_routes;
pub(crate) mod leased_session;
pub(crate) mod ownership;
pub(crate) mod renewal_signal;
pub(crate) mod routing_table_cell;
pub(crate) mod serving_check;
pub(crate) mod state_dir;
