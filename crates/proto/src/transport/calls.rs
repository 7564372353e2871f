//! What calls hold of a server's memory from their first byte until their answer is taken: bounded
//! in number, in bytes, and in the time a request may take to arrive.
//!
//! Without it a caller that opens calls and sends half of a message, or never reads an answer,
//! could have a server keep connections x streams x message size of bytes.
//!
//! Invariant: every byte of a message of a bounded call, and what the message becomes in memory, is
//! counted, for its connection and for the server, from when it is read until its call has ended
//! and the answer's last byte was handed to the connection; a call that is dropped gives its part
//! back. Above a bound a call is answered RESOURCE_EXHAUSTED with a retry hint, and nobody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tower::{Layer, Service};

use super::body::{Answer, Receiving, Streamed};
use super::share::{Share, add_within};
use crate::error::Fault;
use crate::v1::Reason;

/// Most calls of one server at a time.
pub const CALLS_MAX: usize = 131_072;
/// Most bytes of messages one server holds: requests received and not answered, answers not taken.
pub const BUFFERED_MAX: usize = 512 << 20;
/// The same of one connection.
pub const BUFFERED_OF_ONE_MAX: usize = 64 << 20;
/// When a call that was turned away may come again.
const RETRY_MS: u32 = 100;

/// Bounds and counts of one server's calls; as a layer it keeps them. Bounded are the calls of the
/// service whose paths begin with its prefix, which must be unary but for the one named stream;
/// others are only counted.
#[derive(Clone, Debug)]
pub struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    prefix: &'static str,
    stream: &'static str,
    calls: AtomicUsize,
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl Calls {
    /// `prefix`: such as `/seqsvr.v1.Sequence/`; `stream`: the method that takes and answers a
    /// stream of messages. It tells of each that it took by the [`Messages`] in its request's
    /// extensions.
    pub fn new(prefix: &'static str, stream: &'static str) -> Calls {
        Calls(Arc::new(Inner {
            prefix,
            stream,
            calls: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Calls under way.
    pub fn open(&self) -> u64 {
        self.0.calls.load(Relaxed) as u64
    }

    /// Bytes of messages held.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed) as u64
    }

    /// Calls refused since the start.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Relaxed)
    }

    fn refuse(&self, text: &str) -> Status {
        self.0.refused.fetch_add(1, Relaxed);
        let fault = Fault::new(Reason::TooMany, text).with_retry_after_ms(RETRY_MS);
        fault.into()
    }

    fn enter(&self, share: Option<Share>) -> Result<Arc<Held>, Status> {
        if !add_within(&self.0.calls, 1, CALLS_MAX) {
            return Err(self.refuse("this server has too many calls under way; retry later"));
        }
        Ok(Arc::new(Held {
            calls: self.clone(),
            share,
            bytes: AtomicUsize::new(0),
        }))
    }
}

/// What one call holds.
pub(super) struct Held {
    calls: Calls,
    pub(super) share: Option<Share>,
    bytes: AtomicUsize,
}

impl Held {
    pub(super) fn grow(&self, n: usize) -> Result<(), Status> {
        if let Some(share) = &self.share
            && !add_within(share.bytes(), n, BUFFERED_OF_ONE_MAX)
        {
            return Err(self.calls.refuse(
                "this connection has too many bytes of requests and answers under way; read the answers, or retry later",
            ));
        }
        if !add_within(&self.calls.0.bytes, n, BUFFERED_MAX) {
            if let Some(share) = &self.share {
                share.bytes().fetch_sub(n, Relaxed);
            }
            return Err(self.calls.refuse(
                "this server has too many bytes of requests and answers under way; retry later",
            ));
        }
        self.bytes.fetch_add(n, Relaxed);
        Ok(())
    }

    /// Gives everything back.
    pub(super) fn clear(&self) {
        self.shrink(self.bytes.load(Relaxed));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.load(Relaxed) == 0
    }

    fn shrink(&self, n: usize) {
        self.bytes.fetch_sub(n, Relaxed);
        self.calls.0.bytes.fetch_sub(n, Relaxed);
        if let Some(share) = &self.share {
            share.bytes().fetch_sub(n, Relaxed);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
        self.calls.0.calls.fetch_sub(1, Relaxed);
    }
}

impl<S> Layer<S> for Calls {
    type Service = Bounded<S>;

    fn layer(&self, inner: S) -> Bounded<S> {
        Bounded {
            calls: self.clone(),
            inner,
        }
    }
}

/// Through which a method that takes a stream of messages tells that it took one.
#[derive(Clone)]
pub struct Messages(Arc<Held>);

impl Messages {
    /// What was received so far is not kept any more. (The beginning of the next message may be: at
    /// most one HTTP/2 frame of it, which then goes uncounted.)
    pub fn taken(&self) {
        self.0.clear();
    }

    /// What of a message is kept after it was taken counts as a call of its own, of so many bytes,
    /// until what this returns is dropped.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with a hint when to come again, above the bounds of calls.
    pub fn keep(&self, bytes: usize) -> Result<Kept, Status> {
        let held = self.0.calls.enter(self.0.share.clone())?;
        held.grow(bytes)?;
        Ok(Kept { _held: held })
    }
}

/// A part of a message that is kept.
pub struct Kept {
    _held: Arc<Held>,
}

/// A service whose calls are bounded.
#[derive(Clone, Debug)]
pub struct Bounded<S> {
    calls: Calls,
    inner: S,
}

impl<S> Service<Request<Body>> for Bounded<S>
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
        let share = request.extensions().get::<Share>().cloned();
        let held = match self.calls.enter(share) {
            Ok(held) => held,
            Err(status) => return Box::pin(async move { Ok(status.into_http()) }),
        };
        let method = request.uri().path().strip_prefix(self.calls.0.prefix);
        if method == Some(self.calls.0.stream) {
            let counted = held.clone();
            let mut request = request.map(|body| Body::new(Receiving::stream(body, counted)));
            request.extensions_mut().insert(Messages(held.clone()));
            let answering = self.inner.call(request);
            return Box::pin(async move {
                let answer = answering.await?;
                Ok(answer.map(|body| Body::new(Streamed { body, _held: held })))
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
        let request = request.map(|body| Body::new(Receiving::new(body, counted)));
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            Ok(match Answer::of(answer, held).await {
                Ok(answer) => answer,
                Err(status) => status.into_http(),
            })
        })
    }
}

#[cfg(test)]
mod tests;
