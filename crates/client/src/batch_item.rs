//! Items of a call about many keys.

use bytes::Bytes;
use seqsvr_core::id::Uid;
use seqsvr_core::route::KeyRef;

use crate::key::Key;
use crate::options::NextItem;

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
