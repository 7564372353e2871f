//! Reasons why an item could not be answered at once.

use std::sync::Arc;

use seqsvr_core::ids::{SectionKey, Slot};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

use crate::batch::item::ItemAnswer;
use crate::sections::loaded_section::LoadedSection;
use crate::sections::refiller::WindowRaise;

/// Reason why an item could not be answered at once.
pub(crate) enum MissReason {
    /// It can never be answered.
    Final(RpcError),
    /// This node owns the section, but it is not loaded.
    Open(SectionKey, Slot),
    /// The window must reach this number first.
    Refill(Arc<LoadedSection>, u64),
    /// A RaiseTo needs the window raised to this number first.
    Raise(Arc<LoadedSection>, WindowRaise),
    /// `Current` of a section that is not loaded.
    Read(SectionKey),
    /// The caller has seen a greater number or epoch than this object would give.
    VerifyOwnership(Arc<LoadedSection>),
    /// Answer taken from this object. A strict call is answered once a store has confirmed it.
    ConfirmAnswer(Arc<LoadedSection>, ItemAnswer),
    /// Another AllocSvr owns it.
    Remote(String),
    /// This owner has no memory for a new key until it has closed sections.
    NoMemory,
    /// No AllocSvr can serve it now, for this reason.
    Wait(Reason, String),
}
