//! One HTTP connection.
//!
//! Invariants: a request's head arrives within [`HttpOptions::idle_max`](super::HttpOptions) of the answer
//! before it, or the connection is closed; one whose other end takes nothing for [`STUCK_AFTER`] is closed; one
//! that is told to stop answers the request it has begun, and no other.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use seqsvr_proto::transport::{Io, STUCK_AFTER, Share};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tower::ServiceExt;

use super::site;
use crate::door::Accepted;

/// Largest head of a request, bytes: room for the keys of a `GET`.
pub(super) const HEAD_MAX: usize = 64 << 10;

/// Serves a connection until it ends.
pub(super) async fn serve(
    accepted: Accepted,
    routes: Router,
    idle_max: Duration,
    local_only: bool,
) {
    let Accepted {
        io,
        remote,
        stopping,
    } = accepted;
    let share = Share::new(remote);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(share.clone());
        let routes = routes.clone();
        async move {
            if let Err(refusal) = site::check(&request, local_only) {
                return Ok(refusal.into_response());
            }
            Ok::<_, Infallible>(
                routes
                    .oneshot(request)
                    .await
                    .unwrap_or_else(|no| match no {}),
            )
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(idle_max)
        .max_buf_size(HEAD_MAX)
        // Who sends no more may still read.
        .half_close(true)
        .serve_connection(TokioIo::new(Taking::new(io)), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%remote, %error, "a connection ended");
    }
}

/// A connection that fails once its other end has taken nothing for too long.
struct Taking {
    io: Box<dyn Io>,
    /// Set while something waits to be taken.
    late: Option<Pin<Box<Sleep>>>,
}

impl Taking {
    fn new(io: Box<dyn Io>) -> Taking {
        Taking { io, late: None }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.late = None;
            return polled;
        }
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(sleep(STUCK_AFTER)));
        match late.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Taking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Taking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.watch(cx, polled)
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
