//! The limit of the memory of large requests and their answers.
//!
//! Invariants: all requests of many keys, or of many numbers, together reserve at most
//! [`RESERVED_BYTES_MAX`]. A request that has not arrived completely reserves memory for the part
//! that has arrived, and no more. An answer keeps its reservation until the connection has taken
//! its last byte. (A request of one key is no larger than a connection's buffers.)
//!
//! Invariant: a request that waits for memory holds none of the memory for which it waits. Schedule
//! that breaks it: a batch waits for 41 MiB while 40 are free, and takes these at once. Each new
//! request would then be rejected although there is memory. Large requests wait in their order, so
//! that no other overtakes them; small requests pass them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqsvr_net::ByteBudget;
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

use super::error::HttpError;

/// Maximum bytes that the requests of all connections reserve. More requests wait or are rejected.
const RESERVED_BYTES_MAX: usize = 256 << 20;
/// Bytes reserved for an answer of many items before its size is known.
pub(super) const ANSWER_BYTES_ESTIMATE: usize = 1 << 20;
/// Maximum bytes of parsed fields for each byte of their text: keys of one letter, with a comma and
/// quotes, and a copy of the text that is not parsed yet.
const PARSED_GROWTH_FACTOR: usize = 10;
/// Bytes of which a reservation is a multiple.
const UNIT_BYTES: usize = 1 << 10;
/// Maximum wait of a request for memory; then it is rejected.
const MEMORY_WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The limit of memory, shared by all connections.
#[derive(Clone)]
pub(super) struct MemoryLimit(Arc<MemoryLimitShared>);

/// State behind a [`MemoryLimit`].
struct MemoryLimitShared {
    budget: ByteBudget,
    /// Notified after bytes were released.
    released: Notify,
    /// Held by the large request that is the next to get memory.
    queue: Mutex<()>,
}

/// The memory that one request reserves, released at the drop.
pub(super) struct MemoryReservation {
    memory: MemoryLimit,
    bytes: usize,
}

impl MemoryLimit {
    pub(super) fn new() -> MemoryLimit {
        MemoryLimit(Arc::new(MemoryLimitShared {
            budget: ByteBudget::new(RESERVED_BYTES_MAX),
            released: Notify::new(),
            queue: Mutex::new(()),
        }))
    }

    /// Waits until there are as many bytes, behind the large requests that arrived before.
    async fn add_in_order(&self, bytes: usize) {
        let _queue = self.0.queue.lock().await;
        loop {
            let released = self.0.released.notified();
            tokio::pin!(released);
            // Before the attempt, so that a release after the attempt is not missed.
            released.as_mut().enable();
            if self.0.budget.try_add(bytes) {
                return;
            }
            released.await;
        }
    }

    /// Reserves one unit for a request before its first byte.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn begin_request(&self) -> Result<MemoryReservation, HttpError> {
        let mut reservation = MemoryReservation {
            memory: self.clone(),
            bytes: 0,
        };
        reservation.reserve_arrived(UNIT_BYTES)?;
        Ok(reservation)
    }
}

impl MemoryReservation {
    /// Resizes to `bytes`, or changes nothing if too few are free.
    fn try_resize(&mut self, bytes: usize) -> Result<(), HttpError> {
        let shared = &self.memory.0;
        let is_release = bytes < self.bytes;
        if !shared.budget.try_resize(&mut self.bytes, bytes) {
            return Err(HttpError::overloaded());
        }
        if is_release {
            shared.released.notify_waiters();
        }
        Ok(())
    }

    /// Reserves memory for bytes that have arrived, without waiting.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn reserve_arrived(&mut self, bytes: usize) -> Result<(), HttpError> {
        self.try_resize(self.bytes + to_whole_units(bytes))
    }

    /// Waits for the memory of a complete request of `request_bytes` bytes and of its answer.
    ///
    /// # Errors
    /// There is not enough memory within [`MEMORY_WAIT_TIMEOUT`].
    pub(super) async fn reserve_complete(
        &mut self,
        request_bytes: usize,
        answer_bytes: usize,
    ) -> Result<(), HttpError> {
        let bytes = to_whole_units(request_bytes * PARSED_GROWTH_FACTOR + answer_bytes);
        let added = timeout(MEMORY_WAIT_TIMEOUT, self.memory.add_in_order(bytes)).await;
        added.map_err(|_| HttpError::overloaded())?;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns the answer, which keeps the reservation of the memory that it needs.
    ///
    /// # Errors
    /// The answer is larger than expected, and there is not enough memory.
    pub(super) fn attach_to_answer(mut self, answer: Vec<u8>) -> Result<Bytes, HttpError> {
        self.try_resize(to_whole_units(answer.capacity()))?;
        Ok(Bytes::from_owner(ReservedBytes(answer, self)))
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        // Less is always possible.
        let _ = self.try_resize(0);
    }
}

/// Returns the bytes that are reserved for `bytes` bytes.
fn to_whole_units(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT_BYTES)
}

/// The bytes of an answer, with their reservation.
struct ReservedBytes(
    Vec<u8>,
    #[expect(dead_code, reason = "held")] MemoryReservation,
);

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: usize = 4 << 20;

    impl MemoryLimit {
        fn held_units(&self) -> usize {
            self.0.budget.held_bytes() / UNIT_BYTES
        }

        fn free_bytes(&self) -> usize {
            RESERVED_BYTES_MAX - self.0.budget.held_bytes()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_reservation_is_released_with_the_answer() {
        let memory = MemoryLimit::new();
        let mut reservation = memory.begin_request().unwrap();
        reservation.reserve_arrived(100 * UNIT_BYTES).unwrap();
        assert_eq!(memory.held_units(), 101);
        reservation
            .reserve_complete(BODY, ANSWER_BYTES_ESTIMATE)
            .await
            .unwrap();
        assert!(memory.held_units() >= 40 << 10);
        let answer = reservation.attach_to_answer(vec![0; 10 << 10]).unwrap();
        assert_eq!(memory.held_units(), 10);
        let part = answer.slice(..1);
        drop(answer);
        assert_eq!(memory.held_units(), 10);
        drop(part);
        assert_eq!(memory.held_units(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn memory_limit_rejects_requests_above_it() {
        let memory = MemoryLimit::new();
        let mut all = Vec::new();
        loop {
            let mut reservation = memory.begin_request().unwrap();
            if reservation
                .reserve_complete(BODY, ANSWER_BYTES_ESTIMATE)
                .await
                .is_err()
            {
                break;
            }
            all.push(reservation);
        }
        assert_eq!(
            all.len(),
            RESERVED_BYTES_MAX / (PARSED_GROWTH_FACTOR * BODY + ANSWER_BYTES_ESTIMATE)
        );
        // Idle requests do not block others.
        let idle: Vec<_> = (0..1_000)
            .map(|_| memory.begin_request().unwrap())
            .collect();
        let last = all.pop().unwrap();
        let mut other = memory.begin_request().unwrap();
        assert!(other.reserve_arrived(memory.free_bytes() + 1).is_err());
        let left = memory.free_bytes();
        let more = PARSED_GROWTH_FACTOR * BODY + ANSWER_BYTES_ESTIMATE + left + 2 * UNIT_BYTES;
        last.attach_to_answer(vec![0; more]).map(drop).unwrap_err();
        assert!(
            other
                .reserve_complete(BODY, ANSWER_BYTES_ESTIMATE)
                .await
                .is_ok()
        );
        drop(idle);
    }

    /// Schedule: a batch waits for more memory than is free. New small requests are served during
    /// that time. The batch is served once there is enough memory, before a batch that arrived
    /// later.
    #[tokio::test(start_paused = true)]
    async fn memory_limit_admits_small_requests_while_a_batch_waits() {
        let memory = MemoryLimit::new();
        let batch_bytes = PARSED_GROWTH_FACTOR * BODY + ANSWER_BYTES_ESTIMATE;
        let mut all = Vec::new();
        while memory.free_bytes() >= batch_bytes + UNIT_BYTES {
            let mut reservation = memory.begin_request().unwrap();
            reservation
                .reserve_complete(BODY, ANSWER_BYTES_ESTIMATE)
                .await
                .unwrap();
            all.push(reservation);
        }
        let wait = |memory: &MemoryLimit| {
            let mut reservation = memory.begin_request().unwrap();
            tokio::spawn(async move {
                let reserved = reservation
                    .reserve_complete(BODY, ANSWER_BYTES_ESTIMATE)
                    .await;
                (reserved.is_ok(), reservation)
            })
        };
        let first = wait(&memory);
        let is_waiting = || memory.0.queue.try_lock().is_err();
        while !is_waiting() {
            tokio::task::yield_now().await;
        }
        let second = wait(&memory);
        tokio::task::yield_now().await;
        let mut small = memory.begin_request().unwrap();
        small.reserve_arrived(100 * UNIT_BYTES).unwrap();
        drop(all.pop());
        let (served, reservation) = first.await.unwrap();
        assert!(served && !second.is_finished());
        drop(reservation);
        assert!(second.await.unwrap().0);
    }
}
