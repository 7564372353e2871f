//! What the right to answer from a section rests on.

use seqsvr_core::ids::{Epoch, SessionId, Slot};

/// Ownership on which a section object rests: its slot, at this epoch, is this session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotOwnership {
    pub(crate) slot: Slot,
    pub(crate) epoch: Epoch,
    pub(crate) session: SessionId,
}
