//! One HTTP connection.
//!
//! Invariants: the head of a request arrives within
//! [`HttpOptions::idle_timeout`](super::HttpOptions) of the answer before it, or the connection is
//! closed soon after (at the next of [`IDLE_CHECKS`]). A connection whose peer reads nothing for
//! [`WRITE_STALL_TIMEOUT`] is closed. At a shutdown a connection answers the request that it has
//! begun, and no other.

use std::convert::Infallible;
use std::future::ready;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures::future::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seqsvr_access::Caller;
use seqsvr_net::{ByteStream, ConnectionQuota, GOODBYE_TIMEOUT, WRITE_STALL_TIMEOUT, say_goodbye};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, MissedTickBehavior, Sleep, interval_at, sleep, timeout};
use tower::ServiceExt;

use super::identity::Refusal;
use super::request_check::{HttpHost, check_request};
use super::response::with_security_headers;
use super::routes::Routes;
use crate::listener::AcceptedConnection;

/// Maximum bytes of the head of a request, which has the keys of a `GET`. Above it the connection
/// is closed.
pub(super) const REQUEST_HEAD_BYTES_MAX: usize = 64 << 10;

/// Answer to a caller that speaks HTTP/2, such as one of gRPC.
const NO_HTTP_2: &[u8] = b"HTTP/1.1 505 HTTP Version Not Supported\r\n\
    connection: close\r\n\
    content-type: text/plain\r\n\
    content-length: 64\r\n\
    \r\n\
    this port is for HTTP/1.1; the port for gRPC is that of --listen";
/// Idle checks in one `idle_timeout`.
const IDLE_CHECKS: u32 = 8;
/// Minimum interval between two idle checks.
const IDLE_CHECK_MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Serves a connection until it ends.
pub(super) async fn serve_connection(
    accepted: AcceptedConnection,
    routes: Routes,
    idle_timeout: Duration,
    hosts: Arc<[HttpHost]>,
) {
    let AcceptedConnection {
        mut io,
        local,
        peer,
        shutdown,
    } = accepted;
    let remote = peer.remote();
    let share = ConnectionQuota::new(peer.clone());
    let activity = ConnectionActivity::default();
    let service = service_fn(|mut request: Request<Incoming>| {
        let checked = check_request(&request, local.ip(), &hosts);
        let checked = checked.map_err(Refusal::from);
        let admitted = checked.and_then(|()| routes.admit(&mut request, &peer));
        if let Ok(Some(caller)) = &admitted
            && let Some(answer) = routes.try_fast(caller, &request)
        {
            return Either::Left(ready(Ok::<_, Infallible>(with_security_headers(answer))));
        }
        let (router, share, activity) = (&routes.router, &share, &activity);
        Either::Right(Box::pin(async move {
            activity.in_request.store(true, Relaxed);
            let answer = match admitted {
                Ok(caller) => answer_by_router(router, request, share, caller).await,
                Err(refusal) => {
                    drop(request);
                    refusal.into_error().await.into_response()
                }
            };
            activity.in_request.store(false, Relaxed);
            Ok(with_security_headers(answer))
        }))
    });
    let ended = {
        let io = WriteTimeoutIo {
            io: &mut io,
            activity: &activity,
            write_deadline: None,
        };
        let connection = http1::Builder::new()
            .max_buf_size(REQUEST_HEAD_BYTES_MAX)
            // See `ConnectionActivity`.
            .header_read_timeout(None)
            // A client that sends no more may still read.
            .half_close(true)
            .serve_connection(TokioIo::new(io), service);
        let mut connection = pin!(connection);
        let check_interval = (idle_timeout / IDLE_CHECKS).max(IDLE_CHECK_MIN_INTERVAL);
        let mut idle_check = interval_at(Instant::now() + check_interval, check_interval);
        idle_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut checks_without_progress, mut is_shutting_down) = (0, false);
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => break ended,
                () = shutdown.cancelled(), if !is_shutting_down => {
                    is_shutting_down = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = idle_check.tick() => {
                    checks_without_progress = match activity.take_progress() {
                        true => 0,
                        false => checks_without_progress + 1,
                    };
                    if checks_without_progress >= IDLE_CHECKS {
                        tracing::debug!(%remote, reason = "idle timeout", "http connection closed");
                        return;
                    }
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%remote, %error, "http connection failed");
        if error.is_parse_version_h2() {
            let _ = timeout(GOODBYE_TIMEOUT, say_goodbye(io, NO_HTTP_2)).await;
        }
    }
}

/// Answers a request of a caller; None: its path needs none, or the handler finds out.
async fn answer_by_router(
    router: &Router,
    request: Request<Incoming>,
    share: &ConnectionQuota,
    caller: Option<Caller>,
) -> Response {
    let mut request = request.map(Body::new);
    let extensions = request.extensions_mut();
    extensions.insert(share.clone());
    if let Some(caller) = caller {
        extensions.insert(caller);
    }
    let answer = router.clone().oneshot(request).await;
    answer.unwrap_or_else(|no| match no {})
}

/// Activity of a connection since the last idle check. An exact time of each request would need a
/// clock reading and a timer for each.
#[derive(Default)]
struct ConnectionActivity {
    /// A request is being answered.
    in_request: AtomicBool,
    /// The peer took a part of an answer.
    has_written: AtomicBool,
    /// A part of an answer waits for the peer; that wait has a timeout of its own.
    write_blocked: AtomicBool,
}

impl ConnectionActivity {
    /// Returns whether the connection made progress since the last check, and resets that.
    fn take_progress(&self) -> bool {
        self.has_written.swap(false, Relaxed)
            || self.in_request.load(Relaxed)
            || self.write_blocked.load(Relaxed)
    }
}

/// A socket whose writes fail once the peer has read nothing for [`WRITE_STALL_TIMEOUT`].
struct WriteTimeoutIo<'a> {
    io: &'a mut Box<dyn ByteStream>,
    activity: &'a ConnectionActivity,
    /// Set while a part of an answer waits for the peer.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl WriteTimeoutIo<'_> {
    /// Notes the result of a write, and limits the time for which it is pending.
    fn observe_write<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.activity
            .write_blocked
            .store(written.is_pending(), Relaxed);
        if written.is_ready() {
            self.write_deadline = None;
            self.activity.has_written.store(true, Relaxed);
            return written;
        }
        let write_deadline = self
            .write_deadline
            .get_or_insert_with(|| Box::pin(sleep(WRITE_STALL_TIMEOUT)));
        match write_deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for WriteTimeoutIo<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for WriteTimeoutIo<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.observe_write(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.observe_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
