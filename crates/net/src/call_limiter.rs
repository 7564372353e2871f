//! Layer that bounds the calls of a server. The bounds, and the invariant, are in
//! `call_reservation`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use seqsvr_access::Access;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::call_limiter::call_judge::judge_call;
pub use crate::call_limiter::call_judge::{judge_caller, take_bearer_token};
pub use crate::call_limiter::call_rule::{CallRight, CallRule, Roles};
pub use crate::call_limiter::call_shape::CallShape;
pub use crate::call_limiter::change_log::ChangeLog;
use crate::call_limiter::limited_body::{RequestBody, ResponseStream, buffer_response};
use crate::call_reservation::{CallCounters, CallReservation, reserve_call};
use crate::connection_quota::{ConnectionQuota, caller_of};
use crate::peer::{ConnectionCaller, Role};

/// Most bytes of messages that a server holds for callers of role `store`, beside those of all
/// others: what the others hold never stops Raft.
pub const STORE_BYTES_MAX: usize = 64 << 20;

/// Bounds and counts of one server's calls; as a layer it enforces them, each call by its
/// [`CallRule`], and leaves its [`Caller`](seqsvr_access::Caller) in its extensions.
#[derive(Clone, Debug)]
pub struct CallLimiter {
    rule_of: fn(&str) -> Option<CallRule>,
    /// Answer to calls of methods without a rule.
    other_calls: &'static str,
    counters: Arc<CallCounters>,
    /// Those of callers of role `store`.
    store_counters: Arc<CallCounters>,
    changes: ChangeLog,
    access: Access,
}

impl CallLimiter {
    /// Makes the bounds of a server: `bytes_max` bytes of messages in all connections, and
    /// [`STORE_BYTES_MAX`] in those of StoreSvrs that a certificate names. `rule_of`
    /// returns the rule of a method by its path, such as `/seqsvr.v1.Sequence/Next`. A call of a
    /// method without a rule is answered with UNIMPLEMENTED and the text `other_calls`: which
    /// server this is, and which one has them.
    pub fn new(
        bytes_max: usize,
        rule_of: fn(&str) -> Option<CallRule>,
        other_calls: &'static str,
    ) -> CallLimiter {
        CallLimiter {
            rule_of,
            other_calls,
            counters: CallCounters::new(bytes_max),
            store_counters: CallCounters::new(STORE_BYTES_MAX),
            changes: ChangeLog::default(),
            access: Access::by_role(),
        }
    }

    /// Returns the bounds of a server whose callers `access` judges.
    pub fn with_access(self, access: Access) -> CallLimiter {
        CallLimiter { access, ..self }
    }

    /// Admits a call by its head. Its body was not read.
    fn admit(&self, call: &mut Request<Body>) -> Result<(CallRule, Arc<CallReservation>), Status> {
        let rule = (self.rule_of)(call.uri().path())
            .ok_or_else(|| Status::unimplemented(self.other_calls))?;
        let caller = judge_call(&self.access, call)?;
        let connection = caller_of(call.extensions());
        let checked = rule.check(&caller, connection, call.uri().path());
        // Also of a call that is denied, for its line in the log.
        call.extensions_mut().insert(caller);
        checked?;
        let quota = call.extensions().get::<ConnectionQuota>();
        let counters = match caller_of(call.extensions()) {
            ConnectionCaller::Certified(peer) if peer.identity().role() == Role::Store => {
                &self.store_counters
            }
            _ => &self.counters,
        };
        let reservation = reserve_call(counters, quota.cloned())?;
        if rule.shape == CallShape::StandardStream {
            reservation.reserve_standard_stream()?;
        }
        Ok((rule, reservation))
    }

    /// Logs a call of operators that was not admitted.
    fn log_rejection(&self, call: &Request<Body>, code: Code) {
        let path = call.uri().path();
        if (self.rule_of)(path).is_some_and(|rule| rule.roles == Roles::OPERATORS) {
            self.changes.begin(call.extensions(), path).end(code);
        }
    }

    /// Returns the log of changes, for those that a rule does not show.
    pub fn changes(&self) -> ChangeLog {
        self.changes.clone()
    }

    /// Returns the calls under way.
    pub fn calls_in_flight(&self) -> u64 {
        self.sum(|counters| counters.calls_in_flight.load(Relaxed) as u64)
    }

    /// Returns the bytes of messages held.
    pub fn buffered_bytes(&self) -> u64 {
        self.sum(|counters| counters.buffered.held_bytes() as u64)
    }

    /// Returns the calls rejected since the start.
    pub fn calls_rejected(&self) -> u64 {
        self.sum(|counters| counters.calls_rejected.load(Relaxed))
    }

    fn sum(&self, count: fn(&CallCounters) -> u64) -> u64 {
        count(&self.counters) + count(&self.store_counters)
    }
}

impl<S> Layer<S> for CallLimiter {
    type Service = LimitedService<S>;

    fn layer(&self, inner: S) -> LimitedService<S> {
        LimitedService {
            limiter: self.clone(),
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
        let reservation = self.0.reserve_another()?;
        reservation.reserve(bytes)?;
        Ok(RetainedBytes {
            _reservation: reservation,
        })
    }
}

/// A part of a message that is kept.
pub struct RetainedBytes {
    _reservation: Arc<CallReservation>,
}

/// A service whose calls are bounded.
#[derive(Clone, Debug)]
pub struct LimitedService<S> {
    limiter: CallLimiter,
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (rule, reservation) = match self.limiter.admit(&mut request) {
            Ok(admitted) => admitted,
            Err(status) => {
                self.limiter.log_rejection(&request, status.code());
                return Box::pin(async move { Ok(status.into_http()) });
            }
        };
        let shape = rule.shape;
        let begin_change = || {
            let changes = &self.limiter.changes;
            changes.begin(request.extensions(), request.uri().path())
        };
        let mut change = rule.is_change.then(begin_change);
        let counted = reservation.clone();
        let mut request = request.map(|body| Body::new(RequestBody::new(body, counted, shape)));
        if shape.has_request_stream() {
            let meter = StreamMeter(reservation.clone());
            request.extensions_mut().insert(meter);
        }
        let answering = self.inner.call(request);
        Box::pin(async move {
            let answer = answering.await?;
            // A stream that has begun ends with its trailers.
            let has_begun = shape == CallShape::ResponseStream
                && Status::from_header_map(answer.headers()).is_none();
            if let Some(change) = change.take_if(|_| !has_begun) {
                change.end_with(answer.headers());
            }
            Ok(match shape {
                CallShape::StandardStream
                | CallShape::Pipe
                | CallShape::RequestStream
                | CallShape::ResponseStream => {
                    answer.map(|body| Body::new(ResponseStream::new(body, reservation, change)))
                }
                CallShape::Sequence | CallShape::Unary => {
                    match buffer_response(answer, reservation).await {
                        Ok(answer) => answer,
                        Err(status) => status.into_http(),
                    }
                }
            })
        })
    }
}

mod call_judge;
mod call_rule;
mod call_shape;
mod change_log;
mod limited_body;
mod message_framing;
#[cfg(test)]
mod tests;
