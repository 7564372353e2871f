//! Ids that a store finds unique, or else rejects.

use std::num::NonZeroU32;

/// What a store did with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// It has the id now.
    Done,
    /// It has it from another maker: the unique key rejected it.
    Taken,
}

/// Why no id was inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UntilUniqueError<E> {
    /// Each id was taken.
    #[error(
        "no id was inserted: all {attempts} were taken already; use more random digits, such as 9, or \
         ids of workers"
    )]
    AllTaken {
        /// Ids that were made.
        attempts: NonZeroU32,
    },
    /// The store failed; the id may have been inserted.
    #[error(transparent)]
    Store(E),
}

/// Makes ids and inserts them until the store has one that was not taken, and returns it. `make`
/// receives the number of ids that were taken, from 0, and may pause.
///
/// An id is unique only where the unique key of the store holds: a partition, or a shard.
///
/// # Errors
/// All `attempts` ids were taken, or the store failed.
pub fn until_unique<I, E>(
    attempts: NonZeroU32,
    mut make: impl FnMut(u32) -> I,
    mut insert: impl FnMut(&I) -> Result<Insertion, E>,
) -> Result<I, UntilUniqueError<E>> {
    for taken in 0..attempts.get() {
        let id = make(taken);
        match insert(&id).map_err(UntilUniqueError::Store)? {
            Insertion::Done => return Ok(id),
            Insertion::Taken => {}
        }
    }
    Err(UntilUniqueError::AllTaken { attempts })
}
