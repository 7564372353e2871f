//! What callers ask, apart from the form it came in: one item, its answer, and why an item could
//! not be answered at once.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use seqsvr_core::geometry::{Geometry, uid_as_key};
use seqsvr_core::id::{Epoch, SectionKey, Slot, Uid};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::{KeyRef, RoutingTable, section_of};
use seqsvr_core::section::Key;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::Fault;
use seqsvr_proto::trace::Trace;
use seqsvr_proto::transport::Share;
use seqsvr_proto::v1::{CurrentKind, Reason};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::sections::loaded_section::LoadedSection;

/// The circumstances all items of one request share.
pub(crate) struct RequestContext {
    /// As the caller wrote it; may be empty.
    pub(crate) namespace: String,
    /// When the answer must be under way.
    pub(crate) deadline: Instant,
    /// Sent on by another AllocSvr: not sent on again.
    pub(crate) forwarded: bool,
    /// The cluster that the caller means.
    pub(crate) cluster: ClusterTag,
    /// Version of the caller's table; 0: it has none.
    pub(crate) table_version: u64,
    /// Answer only what a store has confirmed since (DESIGN 5.9).
    pub(crate) strict: bool,
    /// The connection it came by.
    pub(crate) share: Option<Share>,
    /// Told to whoever it is sent on to.
    pub(crate) trace: Option<Trace>,
    /// Sections it may have opened at one time: a batch over thousands of sections is not to put
    /// those of others behind all of its own.
    pub(crate) opens: Semaphore,
}

/// Sections of one call being opened at one time.
pub(crate) const OPENS_PER_REQUEST_MAX: usize = 32;

/// One key and what is asked of it.
#[derive(Clone, Debug)]
pub(crate) struct RequestItem {
    pub(crate) key: OwnedKey,
    pub(crate) operation: ItemOperation,
    /// Highest epoch of the slot the caller has seen, 0: none.
    pub(crate) epoch: u64,
}

/// The key as the caller gave it.
#[derive(Clone, Debug)]
pub(crate) enum OwnedKey {
    Uid(u64),
    Key(Bytes),
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemOperation {
    /// The next numbers; `floor` is the last one the caller has seen, 0: none.
    Next { count: NonZeroU32, floor: u64 },
    /// The last number given out.
    Current,
    /// That every later number is above `value`.
    RaiseTo { value: u64, force: bool },
}

impl ItemOperation {
    /// Numbers it takes.
    pub(crate) fn number_count(self) -> u64 {
        match self {
            ItemOperation::Next { count, .. } => u64::from(count.get()),
            ItemOperation::Current | ItemOperation::RaiseTo { .. } => 0,
        }
    }
}

/// What is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemAnswer {
    Numbers {
        first: u64,
        last: u64,
        epoch: Epoch,
    },
    Current {
        kind: CurrentKind,
        value: u64,
        epoch: Epoch,
    },
    Raised {
        value: u64,
        epoch: Epoch,
    },
}

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

/// Where a key lives.
pub(crate) struct ItemLocation<'a> {
    pub(crate) section: SectionKey,
    pub(crate) slot: Slot,
    index: u32,
    key: Cow<'a, [u8]>,
    dense: bool,
}

impl ItemLocation<'_> {
    /// The key within its section.
    pub(crate) fn key_in_section(&self) -> Key<'_> {
        if self.dense {
            Key::Dense(self.index)
        } else {
            Key::Keyed(&self.key)
        }
    }
}

impl OwnedKey {
    pub(crate) fn as_key_ref(&self) -> KeyRef<'_> {
        match self {
            OwnedKey::Uid(uid) => KeyRef::Uid(Uid(*uid)),
            OwnedKey::Key(key) => KeyRef::Key(key),
        }
    }

    /// Finds the key's section and slot.
    pub(crate) fn locate(
        &self,
        namespace: &Namespace,
        table: &RoutingTable,
    ) -> Result<ItemLocation<'_>, Fault> {
        let section = SectionKey {
            namespace: namespace.id,
            section: section_of(namespace, self.as_key_ref())?,
        };
        let (index, dense, key) = match (namespace.spec.geometry, self) {
            (Geometry::Dense { section_size, .. }, OwnedKey::Uid(uid)) => (
                (uid % u64::from(section_size)) as u32,
                true,
                Cow::Borrowed(&[][..]),
            ),
            (_, OwnedKey::Uid(uid)) => (0, false, Cow::Owned(uid_as_key(Uid(*uid)).into_bytes())),
            (_, OwnedKey::Key(key)) => (0, false, Cow::Borrowed(&key[..])),
        };
        Ok(ItemLocation {
            section,
            slot: table.slot_of(section),
            index,
            key,
            dense,
        })
    }
}

/// The error of an item that ran out of time.
pub(crate) fn timeout_error_for(reason: Reason, why: &str) -> Fault {
    Fault::new(reason, format!("{why}; it was not done in time, retry"))
        .with_code(tonic::Code::Unavailable)
}
