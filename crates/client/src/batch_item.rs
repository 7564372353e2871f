//! Items of a call about many keys.

use bytes::Bytes;
use seqsvr_core::id::Uid;
use seqsvr_core::route::KeyRef;

use crate::key::Key;

/// One entry of [`Client::next_many`](crate::Client::next_many): a uid or a [`Key`] for its next
/// number, a [`NextItem`] to say more. A type of the caller's that has a uid or a key can be one as
/// it is.
pub trait Item: Sync {
    /// Returns the key whose numbers the item takes.
    fn key(&self) -> ItemKey<'_>;

    /// Returns how many numbers it takes, 1 to 100,000.
    fn count(&self) -> u32 {
        1
    }

    /// Returns the last number of this sequence that the caller has seen.
    fn floor(&self) -> Option<u64> {
        None
    }
}

/// The key of an [`Item`], without a copy of it.
#[derive(Clone, Copy, Debug)]
pub enum ItemKey<'a> {
    /// As [`Key::Uid`].
    Uid(u64),
    /// As [`Key::Key`].
    Key(&'a Bytes),
}

impl<'a> ItemKey<'a> {
    /// Returns the form from which core computes sections.
    pub(crate) fn as_ref(self) -> KeyRef<'a> {
        match self {
            ItemKey::Uid(uid) => KeyRef::Uid(Uid(uid)),
            ItemKey::Key(key) => KeyRef::Key(key),
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

impl Item for u64 {
    fn key(&self) -> ItemKey<'_> {
        ItemKey::Uid(*self)
    }
}

impl Item for Key {
    fn key(&self) -> ItemKey<'_> {
        match self {
            Key::Uid(uid) => ItemKey::Uid(*uid),
            Key::Key(key) => ItemKey::Key(key),
        }
    }
}

impl Item for NextItem {
    fn key(&self) -> ItemKey<'_> {
        self.key.key()
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn floor(&self) -> Option<u64> {
        self.floor
    }
}
