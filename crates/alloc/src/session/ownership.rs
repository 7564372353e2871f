//! What the right to answer from a section rests on.

use seqsvr_core::ids::{Epoch, SessionId, Slot};

/// What a section object rests on: its slot, at this epoch, is this session's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotOwnership {
    pub(crate) slot: Slot,
    pub(crate) epoch: Epoch,
    pub(crate) session: SessionId,
}
