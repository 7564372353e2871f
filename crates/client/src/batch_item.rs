//! Items of a call about many keys.

use bytes::Bytes;
use seqsvr_core::key::KeyRef;
use seqsvr_proto::key::KeyBuf;

/// Key of which a call takes or reads numbers: a uid, a [`Key`](KeyBuf), or a [`NextItem`] to say
/// more. A type of the caller's that has a uid or a key can be one as it is.
pub trait BatchItem: Sync {
    /// Returns the key of the sequence.
    fn key(&self) -> BatchItemKey<'_>;

    /// Returns how many numbers `next` takes, 1 to 100,000.
    fn count(&self) -> u32 {
        1
    }

    /// Returns the last number of this sequence that the caller has seen.
    fn floor(&self) -> Option<u64> {
        None
    }
}

/// The key of a [`BatchItem`], without a copy of it. Not a [`KeyRef`]: a frame that is sent shares
/// the [`Bytes`] of a key, which a slice cannot.
#[derive(Clone, Copy, Debug)]
pub enum BatchItemKey<'a> {
    /// As [`KeyBuf::Uid`].
    Uid(u64),
    /// As [`KeyBuf::Key`].
    Key(&'a Bytes),
}

impl<'a> BatchItemKey<'a> {
    /// Returns the form from which core computes sections.
    pub(crate) fn as_ref(self) -> KeyRef<'a> {
        match self {
            BatchItemKey::Uid(uid) => KeyRef::Uid(uid),
            BatchItemKey::Key(key) => KeyRef::Key(key),
        }
    }
}

/// Key with the count of numbers to take, and with a floor.
#[derive(Clone, Debug)]
pub struct NextItem {
    key: KeyBuf,
    count: u32,
    floor: Option<u64>,
}

impl NextItem {
    /// Returns an item that takes one number of a key.
    pub fn new(key: impl Into<KeyBuf>) -> NextItem {
        NextItem {
            key: key.into(),
            count: 1,
            floor: None,
        }
    }

    /// Sets how many numbers the item takes, 1 to 100,000.
    #[must_use]
    pub fn with_count(mut self, count: u32) -> NextItem {
        self.count = count;
        self
    }

    /// Sets the last number of this sequence that the caller has seen. The answer is greater, or an
    /// error.
    #[must_use]
    pub fn with_floor(mut self, floor: u64) -> NextItem {
        self.floor = Some(floor);
        self
    }
}

impl BatchItem for u64 {
    fn key(&self) -> BatchItemKey<'_> {
        BatchItemKey::Uid(*self)
    }
}

impl BatchItem for KeyBuf {
    fn key(&self) -> BatchItemKey<'_> {
        match self {
            KeyBuf::Uid(uid) => BatchItemKey::Uid(*uid),
            KeyBuf::Key(key) => BatchItemKey::Key(key),
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
