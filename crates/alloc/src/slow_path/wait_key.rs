//! What items of a request wait for, and why they are not answered yet.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use seqsvr_core::ids::{SectionKey, Slot};
use seqsvr_proto::v1::Reason;

use crate::sections::loaded_section::LoadedSection;
use crate::sections::refiller::WindowRaise;
use crate::session::ownership::SlotOwnership;

/// Event that an item waits for. Items with equal keys wait together.
#[derive(PartialEq, Eq, Hash)]
pub(crate) enum WaitKey {
    Open(SectionKey, Slot),
    Refill(SectionPtr, u64),
    Raise(SectionPtr, WindowRaise),
    Read(SectionKey),
    VerifyOwnership(SlotOwnership),
    ConfirmAnswers(SlotOwnership),
    Remote(String),
    Renewal,
    Wait,
}

/// Section object, compared by identity.
pub(crate) struct SectionPtr(pub(crate) Arc<LoadedSection>);

impl PartialEq for SectionPtr {
    fn eq(&self, other: &SectionPtr) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SectionPtr {}

impl Hash for SectionPtr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// Reason why an item is not answered yet. It becomes a text only if the item times out.
pub(crate) enum PendingReason {
    Opening(SectionKey),
    Window(SectionKey),
    Raising(SectionKey),
    Store,
    NotConfirmed,
    Owner(String),
    RoutingTableCell,
    NoMemory,
    Other(Reason, String),
}
