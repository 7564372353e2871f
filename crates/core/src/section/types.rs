//! Input and output of a section: plain values.

/// Grant of one `Open`; plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionGrant {
    /// The generation this section object serves.
    pub generation: u64,
    /// `max_seq` before the `Open`: every number handed out earlier is at most this.
    pub base: u64,
    /// Durable upper bound of what may be handed out, at least `base`.
    pub max_seq: u64,
    /// Smallest number of the namespace above `base`; None when there is none up to 2^63-1.
    pub first: Option<u64>,
    /// Distance between neighboring numbers of the namespace, at least 1.
    pub stride: u64,
}

/// A key within its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKey<'a> {
    /// Index of a uid within its dense section.
    Dense(u32),
    /// Key of a keyed section.
    Keyed(&'a [u8]),
}

/// Numbers handed out by one call: `first`, `first + stride` … `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// Smallest of them.
    pub first: u64,
    /// Greatest of them; the key's cur_seq after the call.
    pub last: u64,
}

/// State of a key's cur_seq in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentValue {
    /// The counter is at this number: none greater was handed out, every later one is greater.
    Touched(u64),
    /// Nothing was handed out since load: cur_seq is at most the section's base.
    Untouched,
}

/// Reason why a section rejected a call. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The window does not reach. Raise `max_seq` to at least `needed`, widen, retry.
    #[error("the window ends below {needed}; wait for it to be widened")]
    WindowExhausted {
        /// Smallest `max_seq` with which this call would have gone through.
        needed: u64,
    },
    /// This section object serves no more. Look the section up again.
    #[error("the section object is sealed; look the section up again")]
    Sealed,
    /// The sequence would pass 2^63-1.
    #[error("the sequence is exhausted: it would pass 2^63-1")]
    SequenceExhausted,
    /// The key cannot be in this section: wrong kind, or an index not below the section's size.
    #[error("the key does not belong to this section")]
    WrongSection,
    /// A keyed section has no room for another key. Close idle sections or use more of them.
    #[error("the section holds too many keys; create the namespace with more sections")]
    SectionFull,
    /// Sections have all the memory that counters may have. Close sections, or wait until some are
    /// closed.
    #[error("the memory of counters is used up")]
    MemoryExhausted,
}
