//! Memory that calls hold in a server from their first byte until their answer is taken.
//!
//! It is bounded in number, in bytes, and in the time a request may take to arrive. Without bounds,
//! a caller could open calls and send half of a message, or never read an answer. The server would
//! then keep connections x streams x message size of bytes.
//!
//! Invariant: every byte of a message of a call of any service, and what the message becomes in
//! memory, is counted, for its connection and for the server. It counts from when it is read until
//! its call has ended and the answer's last byte was handed to the connection; in a stream, until
//! the method has taken it. A call that is dropped gives its part back. Above a bound the server
//! answers RESOURCE_EXHAUSTED with a retry hint, and no call waits.
//!
//! Invariant: a call counts of any service, until its answer has ended. Schedule that breaks it: a
//! caller opens watches of health, whose answers begin at once and never end. Each costs some
//! kilobytes; none of them counts any more.
//!
//! Invariant: what callers of other roles hold is not counted for StoreSvrs. Schedule that breaks
//! it: AllocSvrs send the first halves of so many messages that a store takes no more bytes. No
//! entry of the leader reaches it, and all leases end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tonic::Status;

use crate::byte_budget::{ByteBudget, add_within};
use crate::connection_quota::{ConnectionQuota, UnsentResponse};

/// Most calls of one server at a time.
pub const CALLS_IN_FLIGHT_MAX: usize = 131_072;
/// Most streams of standard services (watches of health, reflection) of one connection at a time.
pub const STANDARD_STREAMS_MAX: usize = 64;
/// Largest request of `Admin`, health or reflection, bytes; a larger one is rejected by its prefix.
/// None of them has a list, so a legitimate one takes some hundred bytes.
pub const CONTROL_REQUEST_BYTES_MAX: usize = 16 << 10;
/// Delay after which a rejected call may be retried.
const RETRY_AFTER_MS: u32 = 100;

/// Counts of one server's calls, those of StoreSvrs or all others.
#[derive(Debug)]
pub(crate) struct CallCounters {
    pub(crate) calls_in_flight: AtomicUsize,
    /// Bytes of messages the server holds: requests received and not answered, answers not taken.
    pub(crate) buffered: ByteBudget,
    pub(crate) calls_rejected: AtomicU64,
}

impl CallCounters {
    /// Makes counts of nothing, with a bound for the bytes.
    pub(crate) fn new(bytes_max: usize) -> Arc<CallCounters> {
        Arc::new(CallCounters {
            calls_in_flight: AtomicUsize::new(0),
            buffered: ByteBudget::new(bytes_max),
            calls_rejected: AtomicU64::new(0),
        })
    }

    fn reject(&self, text: &str) -> Status {
        self.calls_rejected.fetch_add(1, Relaxed);
        let fault = RpcError::new(Reason::Overloaded, text).with_retry_after_ms(RETRY_AFTER_MS);
        fault.into()
    }
}

/// Counts one more call of a connection, until the returned value is dropped.
///
/// # Errors
/// RESOURCE_EXHAUSTED with a retry hint, above [`CALLS_IN_FLIGHT_MAX`].
pub(crate) fn reserve_call(
    counters: &Arc<CallCounters>,
    quota: Option<ConnectionQuota>,
) -> Result<Arc<CallReservation>, Status> {
    if !add_within(&counters.calls_in_flight, 1, CALLS_IN_FLIGHT_MAX) {
        return Err(counters.reject("this server has too many calls in flight; retry later"));
    }
    Ok(Arc::new(CallReservation {
        counters: counters.clone(),
        quota,
        bytes: AtomicUsize::new(0),
        is_standard_stream: AtomicBool::new(false),
    }))
}

/// Memory that one call holds.
pub(crate) struct CallReservation {
    counters: Arc<CallCounters>,
    quota: Option<ConnectionQuota>,
    bytes: AtomicUsize,
    /// Whether it counts as a stream of a standard service of its connection.
    is_standard_stream: AtomicBool,
}

impl CallReservation {
    /// Returns a reservation for another call of the same connection.
    ///
    /// # Errors
    /// Those of [`reserve_call`].
    pub(crate) fn reserve_another(&self) -> Result<Arc<CallReservation>, Status> {
        reserve_call(&self.counters, self.quota.clone())
    }

    /// Counts this call as a stream of a standard service. To be called once.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with a retry hint, above [`STANDARD_STREAMS_MAX`].
    pub(crate) fn reserve_standard_stream(&self) -> Result<(), Status> {
        let Some(quota) = &self.quota else {
            return Ok(());
        };
        if !add_within(quota.standard_streams(), 1, STANDARD_STREAMS_MAX) {
            let text = format!(
                "this connection has {STANDARD_STREAMS_MAX} streams of health and reflection already; end one, or retry later"
            );
            return Err(self.counters.reject(&text));
        }
        self.is_standard_stream.store(true, Relaxed);
        Ok(())
    }

    /// Counts bytes of the call's messages.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with a retry hint, above the bounds of bytes.
    pub(crate) fn reserve(&self, n: usize) -> Result<(), Status> {
        if let Some(quota) = &self.quota
            && !quota.buffered().try_add(n)
        {
            return Err(self.counters.reject(
                "this connection has too many bytes of requests and answers in flight; read the answers, or retry later",
            ));
        }
        if !self.counters.buffered.try_add(n) {
            if let Some(quota) = &self.quota {
                quota.buffered().subtract(n);
            }
            return Err(self.counters.reject(
                "this server has too many bytes of requests and answers in flight; retry later",
            ));
        }
        self.bytes.fetch_add(n, Relaxed);
        Ok(())
    }

    /// Gives everything back.
    pub(crate) fn release_all(&self) {
        self.release(self.bytes.load(Relaxed));
    }

    /// Gives everything back but this number of bytes.
    pub(crate) fn release_to(&self, kept: usize) {
        self.release(self.bytes.load(Relaxed).saturating_sub(kept));
    }

    /// Notes for its connection that the answer is ready to be taken.
    pub(crate) fn begin_response(&self) -> Option<UnsentResponse> {
        self.quota.as_ref().map(ConnectionQuota::begin_response)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.load(Relaxed) == 0
    }

    fn release(&self, n: usize) {
        self.bytes.fetch_sub(n, Relaxed);
        self.counters.buffered.subtract(n);
        if let Some(quota) = &self.quota {
            quota.buffered().subtract(n);
        }
    }
}

impl Drop for CallReservation {
    fn drop(&mut self) {
        self.release_all();
        if let Some(quota) = self.quota.as_ref()
            && self.is_standard_stream.load(Relaxed)
        {
            quota.standard_streams().fetch_sub(1, Relaxed);
        }
        self.counters.calls_in_flight.fetch_sub(1, Relaxed);
    }
}
