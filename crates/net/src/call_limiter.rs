//! Memory that calls hold in a server from their first byte until their answer is taken.
//!
//! It is bounded in number, in bytes, and in the time a request may take to arrive. Without bounds,
//! a caller could open calls and send half of a message, or never read an answer. The server would
//! then keep connections x streams x message size of bytes.
//!
//! Invariant: every byte of a message of a bounded call, and what the message becomes in memory, is
//! counted, for its connection and for the server. It counts from when it is read until its call
//! has ended and the answer's last byte was handed to the connection. A call that is dropped gives
//! its part back. Above a bound the server answers RESOURCE_EXHAUSTED with a retry hint, and no
//! call waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

use crate::connection_quota::{ConnectionQuota, add_within};
use crate::limited_body::{LimitedResponse, RequestBody, ResponseStream};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

/// Most calls of one server at a time.
pub const CALLS_IN_FLIGHT_MAX: usize = 131_072;
/// Most bytes of messages one server holds: requests received and not answered, answers not taken.
pub const BUFFERED_BYTES_MAX: usize = 512 << 20;
/// Most bytes of messages one connection holds in the server.
pub const CONNECTION_BUFFERED_BYTES_MAX: usize = 64 << 20;
/// Delay after which a rejected call may be retried.
const RETRY_AFTER_MS: u32 = 100;

/// Bounds and counts of one server's calls; as a layer it enforces them. It bounds the calls of the
/// service whose paths begin with its prefix. These must be unary except the one named stream. It
/// only counts other calls.
#[derive(Clone, Debug)]
pub struct CallLimiter(Arc<CallCounters>);

#[derive(Debug)]
struct CallCounters {
    prefix: &'static str,
    stream: &'static str,
    calls_in_flight: AtomicUsize,
    buffered_bytes: AtomicUsize,
    calls_rejected: AtomicU64,
}

impl CallLimiter {
    /// Makes the bounds of a service. `prefix`: such as `/seqsvr.v1.Sequence/`; `stream`: the
    /// method that takes and answers a stream of messages. That method reports each message that it
    /// took by the [`StreamMeter`] in its request's extensions.
    pub fn new(prefix: &'static str, stream: &'static str) -> CallLimiter {
        CallLimiter(Arc::new(CallCounters {
            prefix,
            stream,
            calls_in_flight: AtomicUsize::new(0),
            buffered_bytes: AtomicUsize::new(0),
            calls_rejected: AtomicU64::new(0),
        }))
    }

    /// Returns the calls under way.
    pub fn calls_in_flight(&self) -> u64 {
        self.0.calls_in_flight.load(Relaxed) as u64
    }

    /// Returns the bytes of messages held.
    pub fn buffered_bytes(&self) -> u64 {
        self.0.buffered_bytes.load(Relaxed) as u64
    }

    /// Returns the calls rejected since the start.
    pub fn calls_rejected(&self) -> u64 {
        self.0.calls_rejected.load(Relaxed)
    }

    fn reject(&self, text: &str) -> Status {
        self.0.calls_rejected.fetch_add(1, Relaxed);
        let fault = RpcError::new(Reason::TooMany, text).with_retry_after_ms(RETRY_AFTER_MS);
        fault.into()
    }

    fn reserve_call(&self, share: Option<ConnectionQuota>) -> Result<Arc<CallReservation>, Status> {
        if !add_within(&self.0.calls_in_flight, 1, CALLS_IN_FLIGHT_MAX) {
            return Err(self.reject("this server has too many calls under way; retry later"));
        }
        Ok(Arc::new(CallReservation {
            calls: self.clone(),
            share,
            bytes: AtomicUsize::new(0),
        }))
    }
}

/// Memory that one call holds.
pub(crate) struct CallReservation {
    calls: CallLimiter,
    pub(crate) share: Option<ConnectionQuota>,
    bytes: AtomicUsize,
}

impl CallReservation {
    pub(crate) fn reserve(&self, n: usize) -> Result<(), Status> {
        if let Some(share) = &self.share
            && !add_within(share.buffered_bytes(), n, CONNECTION_BUFFERED_BYTES_MAX)
        {
            return Err(self.calls.reject(
                "this connection has too many bytes of requests and answers under way; read the answers, or retry later",
            ));
        }
        if !add_within(&self.calls.0.buffered_bytes, n, BUFFERED_BYTES_MAX) {
            if let Some(share) = &self.share {
                share.buffered_bytes().fetch_sub(n, Relaxed);
            }
            return Err(self.calls.reject(
                "this server has too many bytes of requests and answers under way; retry later",
            ));
        }
        self.bytes.fetch_add(n, Relaxed);
        Ok(())
    }

    /// Gives everything back.
    pub(crate) fn release_all(&self) {
        self.release(self.bytes.load(Relaxed));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.load(Relaxed) == 0
    }

    fn release(&self, n: usize) {
        self.bytes.fetch_sub(n, Relaxed);
        self.calls.0.buffered_bytes.fetch_sub(n, Relaxed);
        if let Some(share) = &self.share {
            share.buffered_bytes().fetch_sub(n, Relaxed);
        }
    }
}

impl Drop for CallReservation {
    fn drop(&mut self) {
        self.release_all();
        self.calls.0.calls_in_flight.fetch_sub(1, Relaxed);
    }
}

impl<S> Layer<S> for CallLimiter {
    type Service = LimitedService<S>;

    fn layer(&self, inner: S) -> LimitedService<S> {
        LimitedService {
            calls: self.clone(),
            inner,
        }
    }
}

/// Handle by which a method that takes a stream of messages reports that it took one.
#[derive(Clone)]
pub struct StreamMeter(Arc<CallReservation>);

impl StreamMeter {
    /// Reports that what was received so far is not kept any more. (The beginning of the next
    /// message may be: at most one HTTP/2 frame of it, which is then not counted.)
    pub fn message_taken(&self) {
        self.0.release_all();
    }

    /// Counts what is kept of a message after it was taken as a call of its own, of this number of
    /// bytes, until the returned value is dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with a retry hint, above the bounds of calls.
    pub fn retain(&self, bytes: usize) -> Result<RetainedBytes, Status> {
        let held = self.0.calls.reserve_call(self.0.share.clone())?;
        held.reserve(bytes)?;
        Ok(RetainedBytes { _held: held })
    }
}

/// A part of a message that is kept.
pub struct RetainedBytes {
    _held: Arc<CallReservation>,
}

/// A service whose calls are bounded.
#[derive(Clone, Debug)]
pub struct LimitedService<S> {
    calls: CallLimiter,
    inner: S,
}

impl<S> Service<Request<Body>> for LimitedService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let share = request.extensions().get::<ConnectionQuota>().cloned();
        let held = match self.calls.reserve_call(share) {
            Ok(held) => held,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let method = request.uri().path().strip_prefix(self.calls.0.prefix);
        if method == Some(self.calls.0.stream) {
            let counted = held.clone();
            let mut request = request.map(|body| Body::new(RequestBody::stream(body, counted)));
            request.extensions_mut().insert(StreamMeter(held.clone()));
            let answering = self.inner.call(request);
            return Box::pin(async move {
                let answer = answering.await?;
                Ok(answer.map(|body| Body::new(ResponseStream { body, _held: held })))
            });
        }
        if method.is_none() {
            let answering = self.inner.call(request);
            return Box::pin(async move {
                let _held = held;
                answering.await
            });
        }
        let counted = held.clone();
        let request = request.map(|body| Body::new(RequestBody::new(body, counted)));
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            Ok(match LimitedResponse::of(answer, held).await {
                Ok(answer) => answer,
                Err(status) => status.into_http(),
            })
        })
    }
}

#[cfg(test)]
mod tests;
