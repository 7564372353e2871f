//! Room for large requests and their answers.
//!
//! Invariants: what all requests of many keys, or of many numbers, hold at a time is within
//! [`HELD_MAX`]. A request that has not arrived whole holds memory for the part that has arrived,
//! and no more. An answer holds its part until its last byte was taken. (A request of one key is no
//! larger than a connection's buffers.)
//!
//! Invariant: a request that waits for room holds none of what it waits for. Schedule that breaks
//! it: a batch waits for 41 MiB while 40 are free. A waiter of tokio's semaphore takes all free
//! permits at once, so each newcomer would be rejected although there is room. Large requests wait
//! in their order, so that no other overtakes them; small ones pass them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::refusal::Refusal;

/// Most bytes held, in all connections.
const HELD_MAX: usize = 256 << 20;
/// Bytes reserved for an answer of many items before the answer exists.
pub(super) const ANSWER: usize = 1 << 20;
/// Most bytes of fields for each byte of their text: keys of one letter, with a comma and quotes,
/// and then a copy of the text that is still to be read.
const GROWN: usize = 10;
/// Bytes of one unit of the count.
const UNIT: usize = 1 << 10;
/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(2);

/// The memory that is left.
#[derive(Clone)]
pub(super) struct Memory(Arc<Shared>);

struct Shared {
    free: Arc<Semaphore>,
    /// Notified after something was given back.
    freed: Notify,
    /// Held by the large request that waits for room.
    turn: Mutex<()>,
}

/// The memory that one request holds.
pub(super) struct Held(Part);

/// A part of the memory, given back at its drop.
struct Part {
    memory: Memory,
    /// None only during the drop.
    permit: Option<OwnedSemaphorePermit>,
}

impl Memory {
    pub(super) fn new() -> Memory {
        Memory(Arc::new(Shared {
            free: Arc::new(Semaphore::new(HELD_MAX / UNIT)),
            freed: Notify::new(),
            turn: Mutex::new(()),
        }))
    }

    /// Takes a number of units at once; None if there are fewer.
    fn take(&self, units: u32) -> Option<OwnedSemaphorePermit> {
        self.0.free.clone().try_acquire_many_owned(units).ok()
    }

    /// Waits until there are as many units, behind the large requests that came before.
    async fn wait_for(&self, units: u32) -> OwnedSemaphorePermit {
        let _turn = self.0.turn.lock().await;
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // Before the try, so that a release after the try is not missed.
            freed.as_mut().enable();
            if let Some(permit) = self.take(units) {
                return permit;
            }
            freed.await;
        }
    }

    /// Returns what a request holds before its first byte.
    ///
    /// # Errors
    /// There is no room for anything.
    pub(super) fn begin(&self) -> Result<Held, Refusal> {
        let permit = self.take(1).ok_or_else(Refusal::full)?;
        Ok(Held(Part {
            memory: self.clone(),
            permit: Some(permit),
        }))
    }
}

impl Part {
    fn merge(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
    }

    /// Resizes the part to `units`, or leaves it as it is if there is no room.
    fn resize(&mut self, units: usize) -> Result<(), Refusal> {
        let has = self.permit.as_ref().map_or(0, |p| p.num_permits());
        if let Some(more) = units.checked_sub(has) {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.merge(self.memory.take(more).ok_or_else(Refusal::full)?);
        } else if let Some(permit) = &mut self.permit {
            drop(permit.split(has - units));
            self.memory.0.freed.notify_waiters();
        }
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.memory.0.freed.notify_waiters();
    }
}

impl Held {
    /// Takes room for bytes that have arrived: at once, or not at all.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let more = self.0.memory.take(units(bytes));
        self.0.merge(more.ok_or_else(Refusal::full)?);
        Ok(())
    }

    /// Waits for room for a request of so many bytes that has arrived whole, and for its answer.
    ///
    /// # Errors
    /// There is no room for some time.
    pub(super) async fn whole(&mut self, request: usize, answer: usize) -> Result<(), Refusal> {
        let units = units(request * GROWN + answer);
        let more = timeout(PATIENCE, self.0.memory.wait_for(units)).await;
        self.0.merge(more.map_err(|_| Refusal::full())?);
        Ok(())
    }

    /// Returns the answer, which continues to hold the memory that it needs.
    ///
    /// # Errors
    /// The answer is larger than expected, and there is no more room.
    pub(super) fn answer(self, answer: Vec<u8>) -> Result<Bytes, Refusal> {
        let Held(mut part) = self;
        part.resize(units(answer.capacity()) as usize)?;
        Ok(Bytes::from_owner(Holding(answer, part)))
    }
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

struct Holding(Vec<u8>, #[expect(dead_code, reason = "held")] Part);

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
        assert_eq!(memory.0.free.available_permits(), whole - 101);
        held.whole(BODY, ANSWER).await.unwrap();
        assert!(memory.0.free.available_permits() <= whole - (40 << 10));
        let answer = held.answer(vec![0; 10 << 10]).unwrap();
        assert_eq!(memory.0.free.available_permits(), whole - 10);
        let part = answer.slice(..1);
        drop(answer);
        assert_eq!(memory.0.free.available_permits(), whole - 10);
        drop(part);
        assert_eq!(memory.0.free.available_permits(), whole);
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
        // Requests that send nothing do not keep others out.
        let idle: Vec<_> = (0..1_000).map(|_| memory.begin().unwrap()).collect();
        let last = all.pop().unwrap();
        let mut other = memory.begin().unwrap();
        assert!(
            other
                .grow(memory.0.free.available_permits() * UNIT + 1)
                .is_err()
        );
        let left = memory.0.free.available_permits() * UNIT;
        let more = GROWN * BODY + ANSWER + left + 2 * UNIT;
        last.answer(vec![0; more]).map(drop).unwrap_err();
        assert!(other.whole(BODY, ANSWER).await.is_ok());
        drop(idle);
    }

    /// Schedule: a batch waits for more than there is. Newcomers that fit are served during that
    /// time; the batch is served once there is room, and before a batch that came later.
    #[tokio::test(start_paused = true)]
    async fn a_batch_that_waits_keeps_no_newcomer_out() {
        let memory = Memory::new();
        let need = GROWN * BODY + ANSWER;
        let mut all = Vec::new();
        while memory.0.free.available_permits() * UNIT >= need + UNIT {
            let mut held = memory.begin().unwrap();
            held.whole(BODY, ANSWER).await.unwrap();
            all.push(held);
        }
        let wait = |memory: &Memory| {
            let mut held = memory.begin().unwrap();
            tokio::spawn(async move {
                let room = held.whole(BODY, ANSWER).await;
                (room.is_ok(), held)
            })
        };
        let first = wait(&memory);
        let waits = || memory.0.turn.try_lock().is_err();
        while !waits() {
            tokio::task::yield_now().await;
        }
        let second = wait(&memory);
        tokio::task::yield_now().await;
        let mut newcomer = memory.begin().unwrap();
        newcomer.grow(100 * UNIT).unwrap();
        drop(all.pop());
        let (served, held) = first.await.unwrap();
        assert!(served && !second.is_finished());
        drop(held);
        assert!(second.await.unwrap().0);
    }
}
