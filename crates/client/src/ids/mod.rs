//! Ids that carry the time, of families. See [`FamilyHandle`].

mod family_handle;
mod take_ids;

pub use family_handle::FamilyHandle;
