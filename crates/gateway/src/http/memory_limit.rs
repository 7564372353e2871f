//! The limit of the memory of large requests and their answers.
//!
//! Invariants: all requests of many keys, or of many numbers, together reserve at most
//! [`RESERVED_BYTES_MAX`]. A request that has not arrived completely reserves memory for the part
//! that has arrived, and no more. An answer keeps its reservation until the connection has taken
//! its last byte. (A request of one key is no larger than a connection's buffers.)
//!
//! Invariant: a request that waits for memory holds none of the memory for which it waits. Schedule
//! that breaks it: a batch waits for 41 MiB while 40 are free. A waiter of tokio's semaphore takes
//! all free permits immediately, so each new request would be rejected although there is memory.
//! Large requests wait in their order, so that no other overtakes them; small requests pass them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::HttpError;

/// Maximum bytes that the requests of all connections reserve. More requests wait or are rejected.
const RESERVED_BYTES_MAX: usize = 256 << 20;
/// Bytes reserved for an answer of many items before its size is known.
pub(super) const ANSWER_BYTES_ESTIMATE: usize = 1 << 20;
/// Maximum bytes of parsed fields for each byte of their text: keys of one letter, with a comma and
/// quotes, and a copy of the text that is not parsed yet.
const PARSED_GROWTH_FACTOR: usize = 10;
/// Bytes of one permit.
const PERMIT_BYTES: usize = 1 << 10;
/// Maximum wait of a request for memory; then it is rejected.
const MEMORY_WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The limit of memory, shared by all connections.
#[derive(Clone)]
pub(super) struct MemoryLimit(Arc<MemoryLimitShared>);

/// State behind a [`MemoryLimit`].
struct MemoryLimitShared {
    permits: Arc<Semaphore>,
    /// Notified after permits were released.
    released: Notify,
    /// Held by the large request that is the next to get memory.
    queue: Mutex<()>,
}

/// The memory that one request reserves.
pub(super) struct MemoryReservation(ReservedPermits);

/// Permits, released at the drop.
struct ReservedPermits {
    memory: MemoryLimit,
    /// None only during the drop.
    permit: Option<OwnedSemaphorePermit>,
}

impl MemoryLimit {
    pub(super) fn new() -> MemoryLimit {
        MemoryLimit(Arc::new(MemoryLimitShared {
            permits: Arc::new(Semaphore::new(RESERVED_BYTES_MAX / PERMIT_BYTES)),
            released: Notify::new(),
            queue: Mutex::new(()),
        }))
    }

    /// Takes permits without waiting; None: there are fewer.
    fn try_acquire(&self, permit_count: u32) -> Option<OwnedSemaphorePermit> {
        self.0
            .permits
            .clone()
            .try_acquire_many_owned(permit_count)
            .ok()
    }

    /// Waits until there are as many permits, behind the large requests that arrived before.
    async fn acquire_in_order(&self, permit_count: u32) -> OwnedSemaphorePermit {
        let _queue = self.0.queue.lock().await;
        loop {
            let released = self.0.released.notified();
            tokio::pin!(released);
            // Before the attempt, so that a release after the attempt is not missed.
            released.as_mut().enable();
            if let Some(permit) = self.try_acquire(permit_count) {
                return permit;
            }
            released.await;
        }
    }

    /// Reserves one permit for a request before its first byte.
    ///
    /// # Errors
    /// No permit is free.
    pub(super) fn begin_request(&self) -> Result<MemoryReservation, HttpError> {
        let permit = self.try_acquire(1).ok_or_else(HttpError::overloaded)?;
        Ok(MemoryReservation(ReservedPermits {
            memory: self.clone(),
            permit: Some(permit),
        }))
    }
}

impl ReservedPermits {
    fn merge(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
    }

    /// Resizes to `permit_count` permits, or changes nothing if too few are free.
    fn try_resize(&mut self, permit_count: usize) -> Result<(), HttpError> {
        let held = self.permit.as_ref().map_or(0, |p| p.num_permits());
        if let Some(more) = permit_count.checked_sub(held) {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.merge(
                self.memory
                    .try_acquire(more)
                    .ok_or_else(HttpError::overloaded)?,
            );
        } else if let Some(permit) = &mut self.permit {
            drop(permit.split(held - permit_count));
            self.memory.0.released.notify_waiters();
        }
        Ok(())
    }
}

impl Drop for ReservedPermits {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.memory.0.released.notify_waiters();
    }
}

impl MemoryReservation {
    /// Reserves memory for bytes that have arrived, without waiting.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn reserve_arrived(&mut self, bytes: usize) -> Result<(), HttpError> {
        let more = self.0.memory.try_acquire(to_permits(bytes));
        self.0.merge(more.ok_or_else(HttpError::overloaded)?);
        Ok(())
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
        let permit_count = to_permits(request_bytes * PARSED_GROWTH_FACTOR + answer_bytes);
        let more = timeout(
            MEMORY_WAIT_TIMEOUT,
            self.0.memory.acquire_in_order(permit_count),
        )
        .await;
        self.0.merge(more.map_err(|_| HttpError::overloaded())?);
        Ok(())
    }

    /// Returns the answer, which keeps the reservation of the memory that it needs.
    ///
    /// # Errors
    /// The answer is larger than expected, and there is not enough memory.
    pub(super) fn attach_to_answer(self, answer: Vec<u8>) -> Result<Bytes, HttpError> {
        let MemoryReservation(mut permits) = self;
        permits.try_resize(to_permits(answer.capacity()) as usize)?;
        Ok(Bytes::from_owner(ReservedBytes(answer, permits)))
    }
}

/// Returns the number of permits for `bytes` bytes.
fn to_permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}

/// The bytes of an answer, with their reservation.
struct ReservedBytes(
    Vec<u8>,
    #[expect(dead_code, reason = "held")] ReservedPermits,
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

    #[tokio::test(start_paused = true)]
    async fn memory_reservation_is_released_with_the_answer() {
        let memory = MemoryLimit::new();
        let all_permits = RESERVED_BYTES_MAX / PERMIT_BYTES;
        let mut reservation = memory.begin_request().unwrap();
        reservation.reserve_arrived(100 * PERMIT_BYTES).unwrap();
        assert_eq!(memory.0.permits.available_permits(), all_permits - 101);
        reservation
            .reserve_complete(BODY, ANSWER_BYTES_ESTIMATE)
            .await
            .unwrap();
        assert!(memory.0.permits.available_permits() <= all_permits - (40 << 10));
        let answer = reservation.attach_to_answer(vec![0; 10 << 10]).unwrap();
        assert_eq!(memory.0.permits.available_permits(), all_permits - 10);
        let part = answer.slice(..1);
        drop(answer);
        assert_eq!(memory.0.permits.available_permits(), all_permits - 10);
        drop(part);
        assert_eq!(memory.0.permits.available_permits(), all_permits);
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
        assert!(
            other
                .reserve_arrived(memory.0.permits.available_permits() * PERMIT_BYTES + 1)
                .is_err()
        );
        let left = memory.0.permits.available_permits() * PERMIT_BYTES;
        let more = PARSED_GROWTH_FACTOR * BODY + ANSWER_BYTES_ESTIMATE + left + 2 * PERMIT_BYTES;
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
        while memory.0.permits.available_permits() * PERMIT_BYTES >= batch_bytes + PERMIT_BYTES {
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
        small.reserve_arrived(100 * PERMIT_BYTES).unwrap();
        drop(all.pop());
        let (served, reservation) = first.await.unwrap();
        assert!(served && !second.is_finished());
        drop(reservation);
        assert!(second.await.unwrap().0);
    }
}
