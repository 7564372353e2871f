//! Room for large requests and their answers.
//!
//! Invariant: what all requests of many keys hold at a time is within [`HELD_MAX`]; an answer holds its part until
//! its last byte was taken. (A request of one key is no larger than a connection's buffers.)

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refusal::Refusal;

/// Bytes, in all connections.
const HELD_MAX: usize = 256 << 20;
/// What is reserved for an answer before it is there.
const ANSWER: usize = 1 << 20;
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

    /// Room for a request of so many bytes and its answer.
    ///
    /// # Errors
    /// There is none for a while.
    pub(super) async fn hold(&self, request: usize) -> Result<Held, Refusal> {
        let units = units(request * GROWN + ANSWER);
        let permit = timeout(PATIENCE, self.0.clone().acquire_many_owned(units)).await;
        match permit {
            Ok(Ok(permit)) => Ok(Held {
                memory: self.clone(),
                permit,
            }),
            _ => Err(Refusal::full()),
        }
    }
}

impl Held {
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

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_given_back_when_the_answer_was_taken() {
        let memory = Memory::new();
        let whole = HELD_MAX / UNIT;
        let held = memory.hold(4 << 20).await.unwrap();
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
        while let Ok(held) = memory.hold(4 << 20).await {
            all.push(held);
        }
        assert_eq!(all.len(), HELD_MAX / (GROWN * (4 << 20) + ANSWER));
        let last = all.pop().unwrap();
        let left = memory.0.available_permits() * UNIT;
        let more = GROWN * (4 << 20) + ANSWER + left + UNIT;
        last.answer(vec![0; more]).map(drop).unwrap_err();
        assert!(memory.hold(1).await.is_ok());
    }
}
