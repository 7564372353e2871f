//! Why the slow path could not answer an item at once.

use std::sync::Arc;

use seqsvr_core::id::{SectionKey, Slot};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;

use crate::batch::item::ItemAnswer;
use crate::sections::loaded_section::LoadedSection;

/// Why an item could not be answered at once.
pub(crate) enum MissReason {
    /// It never can.
    Final(Fault),
    /// The section is ours but not loaded.
    Open(SectionKey, Slot),
    /// The window must reach this number first.
    Refill(Arc<LoadedSection>, u64),
    /// A RaiseTo needs the window raised to this number first.
    Raise(Arc<LoadedSection>, u64, bool),
    /// `Current` of a section that is not loaded.
    Read(SectionKey),
    /// The caller has seen more than this object would give.
    VerifyOwnership(Arc<LoadedSection>),
    /// Taken from this object; a strict call is answered once a store has confirmed it.
    ConfirmAnswer(Arc<LoadedSection>, ItemAnswer),
    /// Another AllocSvr owns it.
    Remote(String),
    /// This owner has no memory for a new key until it has closed sections.
    NoMemory,
    /// Nobody can serve it at the moment; says why.
    Wait(Reason, String),
}
