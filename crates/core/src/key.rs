//! The key of a call.

/// A uid or a key, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyRef<'a> {
    /// A number: a uid of a dense namespace, or the key of its decimal text in a keyed one.
    Uid(u64),
    /// A key of 1 to 128 bytes, in a keyed namespace.
    Key(&'a [u8]),
}
