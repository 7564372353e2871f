//! Serves the connections of a store on two runtimes.
//!
//! Invariant: a call of Raft or a renewal waits behind no call of another kind. Raft, the arbiter,
//! the proposer and the confirmations of the leadership have a runtime of their own, the core. A
//! connection begins there, and leaves it with its first call of another kind. One that carries
//! calls of Raft or renewals is served there from the first of them on; a call of another kind on
//! it runs on the other runtime nevertheless. A call that its caller may not make is one of another
//! kind.
//!
//! Schedules that break it:
//! - *Many calls.* Eight callers keep a thousand status calls each in flight at the leader. A
//!   runtime polls its tasks in the order in which they became ready, so a heartbeat waits behind
//!   thousands of calls. The followers elect another leader, and renewals time out.
//! - *A borrowed path.* Holders of client certificates send one `KeepAlive` on each connection,
//!   which the store rejects. If that bound the connection to the core, their frames of HTTP/2
//!   would be read there from then on.
//!
//! What a connection costs the core before it leaves is bounded by [`FIRST_BYTES_MAX`].

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{Stream, StreamExt};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use seqsvr_net::{CallRule, ConnectionCaller, LimitedConnection, limit_http2_connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::transport::server::Connected;
use tower::{Service, ServiceExt};

/// Interval of pings. If a caller does not answer a ping within the timeout, the server closes its
/// connection and its streams.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes of a connection that are read in a row before its first call is known.
const FIRST_BYTES_MAX: usize = 4 << 10;

/// Returns the rule of a method by its path; None: it is closed to all.
type RuleOf = fn(&str) -> Option<CallRule>;

/// Returns whether the leadership or a lease is lost if this call is late. The caller may make it.
fn is_core_call(rule_of: RuleOf, path: &str, caller: ConnectionCaller<'_>) -> bool {
    let has_core_path = path.starts_with("/seqsvr.v1.Raft/")
        || path == "/seqsvr.v1.Store/KeepAlive"
        || path == "/seqsvr.v1.Store/OpenSession";
    has_core_path && rule_of(path).is_some_and(|rule| rule.check_role(caller, path).is_ok())
}

/// Runtimes of a store.
#[derive(Clone)]
pub(crate) struct StoreRuntimes {
    /// Raft and renewals.
    core: Handle,
    /// Everything else.
    general: Handle,
    /// Whether they are one.
    is_one: bool,
}

impl StoreRuntimes {
    /// Creates the pair from the current runtime, which serves everything but the core. Without a
    /// core, it serves that as well.
    pub(crate) fn new(core: Option<Handle>) -> StoreRuntimes {
        let general = Handle::current();
        StoreRuntimes {
            is_one: core.is_none(),
            core: core.unwrap_or_else(|| general.clone()),
            general,
        }
    }

    fn get(&self, is_core: bool) -> &Handle {
        match is_core {
            true => &self.core,
            false => &self.general,
        }
    }
}

/// Serves connections until `stop` is canceled, then ends once they have ended. A connection has at
/// most `streams_max` calls at a time.
pub(crate) async fn serve_connections<S>(
    incoming: impl Stream<Item = io::Result<LimitedConnection>>,
    service: S,
    rule_of: RuleOf,
    streams_max: u32,
    runtimes: StoreRuntimes,
    stop: CancellationToken,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let tasks = TaskTracker::new();
    {
        let mut incoming = pin!(incoming);
        while let Some(Some(accepted)) = stop.run_until_cancelled(incoming.next()).await {
            let Ok(connection) = accepted else { continue };
            let place = Arc::new(ConnectionPlace::new(&runtimes));
            let serving = serve_connection(
                connection,
                service.clone(),
                rule_of,
                streams_max,
                place.clone(),
                runtimes.clone(),
                stop.clone(),
            );
            spawn_serving(Box::pin(serving), place, runtimes.clone(), tasks.clone());
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// Serves one connection until it ends.
async fn serve_connection<S>(
    connection: LimitedConnection,
    service: S,
    rule_of: RuleOf,
    streams_max: u32,
    place: Arc<ConnectionPlace>,
    runtimes: StoreRuntimes,
    stop: CancellationToken,
) where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    let (quota, calls) = (connection.connect_info(), place.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        calls.record_call(is_core_call(rule_of, request.uri().path(), quota.caller()));
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(quota.clone());
        service.clone().oneshot(request)
    });
    let executor = CallExecutor {
        place: place.clone(),
        runtimes,
    };
    let mut builder = http2::Builder::new(executor);
    limit_http2_connection(&mut builder)
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams_max)
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    let io = TokioIo::new(PlacedStream {
        connection,
        place,
        first_bytes: 0,
    });
    let mut serving = pin!(builder.serve_connection(io, service));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Spawns the service of a connection in the runtime where it belongs, again whenever that changes.
fn spawn_serving(
    mut serving: BoxFuture<'static, ()>,
    place: Arc<ConnectionPlace>,
    runtimes: StoreRuntimes,
    tasks: TaskTracker,
) {
    let runtime = runtimes.get(place.enter()).clone();
    let next = tasks.clone();
    tasks.spawn_on(
        async move {
            let has_ended = poll_fn(|cx| match serving.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(true),
                Poll::Pending if place.must_move() => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            });
            if !has_ended.await {
                spawn_serving(serving, place, runtimes, next);
            }
        },
        &runtime,
    );
}

/// Where a connection is served, and where it belongs.
struct ConnectionPlace {
    /// Whether there are two runtimes.
    may_move: bool,
    kind: AtomicU8,
    /// Whether the core serves it now.
    is_in_core: AtomicBool,
    /// Whether its last call was one for the core.
    was_core_call: AtomicBool,
}

/// No call has come yet.
const UNKNOWN: u8 = 0;
/// No call for the core has come yet.
const GENERAL: u8 = 1;
/// A call for the core has come.
const CORE: u8 = 2;

impl ConnectionPlace {
    fn new(runtimes: &StoreRuntimes) -> ConnectionPlace {
        ConnectionPlace {
            may_move: !runtimes.is_one,
            kind: AtomicU8::new(UNKNOWN),
            is_in_core: AtomicBool::new(true),
            was_core_call: AtomicBool::new(true),
        }
    }

    /// Notes a call, and whether it is one for the core.
    fn record_call(&self, is_core: bool) {
        self.was_core_call.store(is_core, Relaxed);
        match is_core {
            true => self.kind.store(CORE, Relaxed),
            false if self.is_unknown() => self.kind.store(GENERAL, Relaxed),
            false => {}
        }
    }

    fn is_unknown(&self) -> bool {
        self.kind.load(Relaxed) == UNKNOWN
    }

    /// Returns whether the connection belongs to the other runtime than the one that serves it.
    fn must_move(&self) -> bool {
        let belongs_to_core = self.kind.load(Relaxed) != GENERAL;
        self.may_move && belongs_to_core != self.is_in_core.load(Relaxed)
    }

    /// Notes that the connection is served where it belongs. Returns whether that is the core.
    fn enter(&self) -> bool {
        let is_core = self.kind.load(Relaxed) != GENERAL;
        self.is_in_core.store(is_core, Relaxed);
        is_core
    }
}

/// Spawns the calls of one connection, each where it belongs.
#[derive(Clone)]
struct CallExecutor {
    place: Arc<ConnectionPlace>,
    runtimes: StoreRuntimes,
}

impl<F> Executor<F> for CallExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    /// Spawns the call that was recorded last: hyper does it right after it made the call.
    fn execute(&self, call: F) {
        let is_core = self.place.was_core_call.load(Relaxed);
        self.runtimes.get(is_core).spawn(call);
    }
}

/// A connection that reads nothing while it waits for its move, and little in a row before its
/// first call is known.
struct PlacedStream {
    connection: LimitedConnection,
    place: Arc<ConnectionPlace>,
    /// Bytes read in a row before the first call.
    first_bytes: usize,
}

impl AsyncRead for PlacedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let is_unknown = self.place.may_move && self.place.is_unknown();
        if self.place.must_move() || (is_unknown && self.first_bytes >= FIRST_BYTES_MAX) {
            self.first_bytes = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.connection).poll_read(cx, buf);
        self.first_bytes += buf.filled().len() - before;
        polled
    }
}

impl AsyncWrite for PlacedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
