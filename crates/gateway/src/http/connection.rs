//! One HTTP connection.
//!
//! Invariants: a request's head arrives within [`HttpOptions::idle_max`](super::HttpOptions) of the
//! answer before it, or the connection is closed soon after (at the next of [`LOOKS`]). A
//! connection whose other end takes nothing for [`STUCK_AFTER`] is closed. At a shutdown a
//! connection answers the request it has begun, and no other.

use std::convert::Infallible;
use std::future::ready;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use futures::future::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use seqsvr_proto::transport::{Io, STUCK_AFTER, Share};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, MissedTickBehavior, Sleep, interval_at, sleep};
use tower::ServiceExt;

use super::paths::Paths;
use super::site;
use crate::door::Accepted;

/// Largest head of a request, bytes: room for the keys of a `GET`.
pub(super) const HEAD_MAX: usize = 64 << 10;

/// How many times in `idle_max` the server looks whether anything moves.
const LOOKS: u32 = 8;
/// Shortest time between two looks.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// Serves a connection until it ends.
pub(super) async fn serve(accepted: Accepted, paths: Paths, idle_max: Duration, local_only: bool) {
    let Accepted {
        io,
        remote,
        stopping,
    } = accepted;
    let share = Share::new(remote);
    let life = Life::default();
    let service = service_fn(|request: Request<Incoming>| {
        let refused = site::check(&request, local_only).err();
        let refused = refused.map(IntoResponse::into_response);
        if let Some(answer) = refused.or_else(|| paths.at_once(&request)) {
            return Either::Left(ready(Ok::<_, Infallible>(answer)));
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(share.clone());
        let (router, life) = (paths.router.clone(), &life);
        Either::Right(Box::pin(async move {
            life.asks.store(true, Relaxed);
            let answer = router.oneshot(request).await;
            life.asks.store(false, Relaxed);
            Ok(answer.unwrap_or_else(|no| match no {}))
        }))
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEAD_MAX)
        // See `Life`.
        .header_read_timeout(None)
        // A caller that sends no more may still read.
        .half_close(true)
        .serve_connection(TokioIo::new(Taking::new(io, &life)), service);
    let mut connection = pin!(connection);
    let every = (idle_max / LOOKS).max(LOOK_MIN);
    let mut look = interval_at(Instant::now() + every, every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut still, mut is_stopping) = (0, false);
    let ended = loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => break ended,
            () = stopping.cancelled(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = look.tick() => {
                still = if life.moves() { 0 } else { still + 1 };
                if still >= LOOKS {
                    tracing::debug!(%remote, "a connection was idle for too long");
                    return;
                }
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%remote, %error, "a connection ended");
    }
}

/// What a connection did since the last look. An exact time of each request would need a clock
/// reading and a timer for each.
#[derive(Default)]
struct Life {
    /// A request is being answered.
    asks: AtomicBool,
    /// The other end took a part of an answer.
    wrote: AtomicBool,
    /// A part of an answer waits for the other end; that wait has a time limit of its own.
    waits: AtomicBool,
}

impl Life {
    /// Returns whether the connection did anything since the last look.
    fn moves(&self) -> bool {
        self.wrote.swap(false, Relaxed) || self.asks.load(Relaxed) || self.waits.load(Relaxed)
    }
}

/// A connection that fails once its other end has taken nothing for too long.
struct Taking<'a> {
    io: Box<dyn Io>,
    life: &'a Life,
    /// Set while a part of an answer waits for the other end.
    late: Option<Pin<Box<Sleep>>>,
}

impl<'a> Taking<'a> {
    fn new(io: Box<dyn Io>, life: &'a Life) -> Taking<'a> {
        Taking {
            io,
            life,
            late: None,
        }
    }

    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.life.waits.store(polled.is_pending(), Relaxed);
        if polled.is_ready() {
            self.late = None;
            self.life.wrote.store(true, Relaxed);
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

impl AsyncRead for Taking<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Taking<'_> {
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
