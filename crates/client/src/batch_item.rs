//! Items of a call about many keys.

use bytes::Bytes;
use seqsvr_core::ids::Uid;
use seqsvr_core::routing_table::KeyRef;

use crate::key::Key;

/// One entry of [`Client::next_many`](crate::Client::next_many): a uid or a [`Key`] for its next
/// number, a [`NextItem`] to say more. A type of the caller's that has a uid or a key can be one as
/// it is.
pub trait BatchItem: Sync {
    /// Returns the key whose numbers the item takes.
    fn key(&self) -> BatchItemKey<'_>;

    /// Returns how many numbers it takes, 1 to 100,000.
    fn count(&self) -> u32 {
        1
    }

    /// Returns the last number of this sequence that the caller has seen.
    fn floor(&self) -> Option<u64> {
        None
    }
}

/// The key of an [`BatchItem`], without a copy of it.
#[derive(Clone, Copy, Debug)]
pub enum BatchItemKey<'a> {
    /// As [`Key::Uid`].
    Uid(u64),
    /// As [`Key::Key`].
    Key(&'a Bytes),
}

impl<'a> BatchItemKey<'a> {
    /// Returns the form from which core computes sections.
    pub(crate) fn as_ref(self) -> KeyRef<'a> {
        match self {
            BatchItemKey::Uid(uid) => KeyRef::Uid(Uid(uid)),
            BatchItemKey::Key(key) => KeyRef::Key(key),
        }
    }
}

/// One item of [`Client::next_many`](crate::Client::next_many).
#[derive(Clone, Debug)]
pub struct NextItem {
    /// Key whose numbers are taken.
    pub key: Key,
    /// Numbers to take, 1 to 100,000.
    pub count: u32,
    /// Last number of this sequence that the caller has seen.
    pub floor: Option<u64>,
}

impl NextItem {
    /// Returns an item that takes one number of a key.
    pub fn new(key: impl Into<Key>) -> NextItem {
        NextItem {
            key: key.into(),
            count: 1,
            floor: None,
        }
    }
}

impl BatchItem for u64 {
    fn key(&self) -> BatchItemKey<'_> {
        BatchItemKey::Uid(*self)
    }
}

impl BatchItem for Key {
    fn key(&self) -> BatchItemKey<'_> {
        match self {
            Key::Uid(uid) => BatchItemKey::Uid(*uid),
            Key::Key(key) => BatchItemKey::Key(key),
        }
    }
}

impl BatchItem for NextItem {
    fn key(&self) -> BatchItemKey<'_> {
        self.key.key()
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn floor(&self) -> Option<u64> {
        self.floor
    }
}
