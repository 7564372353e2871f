//! One item of a request and its answer, independent of the form in which the request came.

use std::borrow::Cow;
use std::num::NonZeroU32;

use seqsvr_core::geometry::{Geometry, uid_as_key};
use seqsvr_core::ids::{Epoch, SectionKey, Slot, Uid};
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::{RoutingTable, section_of};
use seqsvr_core::section::CounterKey;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1::CurrentKind;

/// One key and the operation on it.
#[derive(Clone, Debug)]
pub(crate) struct RequestItem {
    pub(crate) key: KeyBuf,
    pub(crate) operation: ItemOperation,
    /// Highest epoch of the slot that the caller has seen; 0: none.
    pub(crate) epoch: u64,
}

/// Operation on the sequence of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ItemOperation {
    /// Takes the next numbers. `floor` is the last number that the caller has seen; 0: none.
    Next { count: NonZeroU32, floor: u64 },
    /// Reads the last number handed out.
    Current,
    /// Makes every later number greater than `value`; with `if_none` only if the key has no number.
    RaiseTo {
        value: u64,
        force: bool,
        if_none: bool,
    },
}

impl ItemOperation {
    /// Returns how many numbers it takes.
    pub(crate) fn number_count(self) -> u64 {
        match self {
            ItemOperation::Next { count, .. } => u64::from(count.get()),
            ItemOperation::Current | ItemOperation::RaiseTo { .. } => 0,
        }
    }
}

/// Answer to an operation.
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
        /// With `if_none`: nothing was changed.
        had_number: bool,
        epoch: Epoch,
    },
}

/// Section, slot and place in the section of a key.
pub(crate) struct ItemLocation<'a> {
    pub(crate) section: SectionKey,
    pub(crate) slot: Slot,
    index: u32,
    key: Cow<'a, [u8]>,
    dense: bool,
}

impl<'a> ItemLocation<'a> {
    /// Finds the section and the slot of a key.
    pub(crate) fn locate(
        key: KeyRef<'a>,
        namespace: &Namespace,
        table: &RoutingTable,
    ) -> Result<ItemLocation<'a>, RpcError> {
        let section = SectionKey {
            namespace: namespace.id,
            section: section_of(namespace, key)?,
        };
        let (index, dense, key) = match (namespace.spec.geometry, key) {
            (Geometry::Dense { section_size, .. }, KeyRef::Uid(uid)) => (
                (uid % u64::from(section_size)) as u32,
                true,
                Cow::Borrowed(&[][..]),
            ),
            (_, KeyRef::Uid(uid)) => (0, false, Cow::Owned(uid_as_key(Uid(uid)).into_bytes())),
            (_, KeyRef::Key(key)) => (0, false, Cow::Borrowed(key)),
        };
        Ok(ItemLocation {
            section,
            slot: table.slot_of(section),
            index,
            key,
            dense,
        })
    }

    /// Returns the key within its section.
    pub(crate) fn key_in_section(&self) -> CounterKey<'_> {
        if self.dense {
            CounterKey::Dense(self.index)
        } else {
            CounterKey::Keyed(&self.key)
        }
    }
}
