//! Room for large requests and their answers.
//!
//! Invariants: what all requests of many keys, or of many numbers, hold at a time is within [`HELD_MAX`]; one that
//! has not come holds what has come of it, and no more; an answer holds its part until its last byte was taken. (A request of one key is no larger than a connection's buffers.)

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refusal::Refusal;

/// Bytes, in all connections.
const HELD_MAX: usize = 256 << 20;
/// What is reserved for an answer of many items before it is there.
pub(super) const ANSWER: usize = 1 << 20;
/// Fields take at most so many times the bytes of the text they are read from: keys of one letter, with a
/// comma and quotes, and then a copy of what is still to be read.
const GROWN: usize = 10;
/// The counting is in units of so many bytes.
const UNIT: usize = 1 << 10;
/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is left.
#[derive(Clone)]
pub(super) struct Memory(Arc<Semaphore>);

/// What one request holds.
pub(super) struct Held {
    memory: Memory,
    permit: OwnedSemaphorePermit,
}

impl Memory {
    pub(super) fn new() -> Memory {
        Memory(Arc::new(Semaphore::new(HELD_MAX / UNIT)))
    }

    /// What a request holds that has said nothing yet.
    ///
    /// # Errors
    /// There is no room for anything.
    pub(super) fn begin(&self) -> Result<Held, Refusal> {
        let permit = self.0.clone().try_acquire_owned();
        Ok(Held {
            memory: self.clone(),
            permit: permit.map_err(|_| Refusal::full())?,
        })
    }
}

impl Held {
    /// Room for bytes that have come: at once, or not at all.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = self.memory.0.clone().try_acquire_many_owned(units(bytes));
        self.permit.merge(more.map_err(|_| Refusal::full())?);
        Ok(())
    }

    /// Room for a request of so many bytes that has come whole, and for its answer.
    ///
    /// # Errors
    /// There is none for a while.
    pub(super) async fn whole(&mut self, request: usize, answer: usize) -> Result<(), Refusal> {
        let units = units(request * GROWN + answer);
        let more = self.memory.0.clone().acquire_many_owned(units);
        match timeout(PATIENCE, more).await {
            Ok(Ok(more)) => {
                self.permit.merge(more);
                Ok(())
            }
            _ => Err(Refusal::full()),
        }
    }

    /// The answer, which goes on holding what it needs.
    ///
    /// # Errors
    /// It is larger than was thought, and there is no more room.
    pub(super) fn answer(self, answer: Vec<u8>) -> Result<Bytes, Refusal> {
        let Held { memory, mut permit } = self;
        let (needed, has) = (units(answer.capacity()) as usize, permit.num_permits());
        if let Some(more) = needed.checked_sub(has) {
            let more = memory.0.try_acquire_many_owned(more as u32);
            permit.merge(more.map_err(|_| Refusal::full())?);
        } else {
            drop(permit.split(has - needed));
        }
        Ok(Bytes::from_owner(Holding(answer, permit)))
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

struct Holding(
    Vec<u8>,
    #[expect(dead_code, reason = "held")] OwnedSemaphorePermit,
);

impl AsRef<[u8]> for Holding {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = 4 << 20;

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_given_back_when_the_answer_was_taken() {
        let memory = Memory::new();
        let whole = HELD_MAX / UNIT;
        let mut held = memory.begin().unwrap();
        held.grow(100 * UNIT).unwrap();
        assert_eq!(memory.0.available_permits(), whole - 101);
        held.whole(BODY, ANSWER).await.unwrap();
        assert!(memory.0.available_permits() <= whole - (40 << 10));
        let answer = held.answer(vec![0; 10 << 10]).unwrap();
        assert_eq!(memory.0.available_permits(), whole - 10);
        let part = answer.slice(..1);
        drop(answer);
        assert_eq!(memory.0.available_permits(), whole - 10);
        drop(part);
        assert_eq!(memory.0.available_permits(), whole);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_no_more_than_there_is() {
        let memory = Memory::new();
        let mut all = Vec::new();
        loop {
            let mut held = memory.begin().unwrap();
            if held.whole(BODY, ANSWER).await.is_err() {
                break;
            }
            all.push(held);
        }
        assert_eq!(all.len(), HELD_MAX / (GROWN * BODY + ANSWER));
        // Those that send nothing keep nobody out.
        let idle: Vec<_> = (0..1_000).map(|_| memory.begin().unwrap()).collect();
        let last = all.pop().unwrap();
        let mut other = memory.begin().unwrap();
        assert!(other.grow(memory.0.available_permits() * UNIT + 1).is_err());
        let left = memory.0.available_permits() * UNIT;
        let more = GROWN * BODY + ANSWER + left + 2 * UNIT;
        last.answer(vec![0; more]).map(drop).unwrap_err();
        assert!(other.whole(BODY, ANSWER).await.is_ok());
        drop(idle);
    }
}
