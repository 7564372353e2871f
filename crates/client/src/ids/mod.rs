//! Ids that carry the time, of families. See [`FamilyHandle`].

mod family_handle;
mod local_ids;
mod local_options;
mod take_ids;
mod worker_calls;

pub use family_handle::FamilyHandle;
pub use local_ids::LocalIds;
pub use local_options::LocalOptions;
