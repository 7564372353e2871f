//! Routing: the newest table, where a key belongs, and which server to send to.

pub(crate) mod cluster_answers;
pub(crate) mod family_cache;
pub(crate) mod jump_check;
pub(crate) mod locate;
pub(crate) mod server_set;
pub(crate) mod table_cache;
pub(crate) mod table_origin;
