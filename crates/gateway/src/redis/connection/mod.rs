//! One Redis connection: reads requests, executes them in batches, writes the replies.
//!
//! Invariants:
//! - Replies leave in the order of their commands.
//! - While the peer has not read more than [`UNSENT_BYTES_MAX`] bytes of replies, the connection
//!   executes and reads nothing.
//! - The bytes that the connection holds are counted (`shared`).
//! - A connection is closed in time when its peer reads nothing, or stops in the middle of a
//!   request.
//! - At a shutdown a connection answers the requests that it has received completely.
//! - A wrong password is answered after [`WRONG_SECRET_DELAY`]; the commands after it wait, and the
//!   connection keeps its place among the connections, also if the peer is gone: a guess that does
//!   not wait for its answer is not cheaper. A shutdown ends the wait.

mod socket;

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use seqsvr_net::{ByteStream, ConnectionQuota, LocalSequence, WRITE_STALL_TIMEOUT};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::redis::command_batch::{CommandBatch, try_execute_single};
use crate::redis::executor::BatchExecutor;
use crate::redis::parser::RequestParser;
use crate::redis::session::RedisSession;
use crate::redis::shared::{BufferReservation, RedisShared, UNCOUNTED_BYTES};
use crate::wrong_secrets::WRONG_SECRET_DELAY;
use socket::{BufferedSocket, ConnectionEvent, READ_BUFFER_MAX, UNSENT_BYTES_MAX};

/// Maximum time from the first byte of a request to its last; then the connection is closed.
const REQUEST_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum requests that are parsed before they are answered; the others wait.
const PARSED_REQUESTS_MAX: usize = 4_096;
/// Time for bytes that are in transit at a shutdown to arrive.
const SHUTDOWN_READ_GRACE: Duration = Duration::from_millis(50);
/// Maximum time until a connection sends the password, if there is one; then it is closed.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the checks for a connection that makes no progress.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The context of serving one connection.
pub(super) struct RedisConnection<'a, S> {
    pub(super) sequence: &'a S,
    pub(super) shared: &'a RedisShared,
    /// Maximum items of one call.
    pub(super) batch_items_max: usize,
    /// Time without a command after which the connection is closed; None: no limit.
    pub(super) idle_timeout: Option<Duration>,
    pub(super) shutdown: CancellationToken,
}

/// Complete requests, some of which are not answered.
#[derive(Default)]
struct PendingRequests {
    parser: RequestParser,
    /// Bytes of the requests.
    data: Bytes,
    /// Index of the first request that is not answered.
    next_index: usize,
}

impl<S: LocalSequence> RedisConnection<'_, S> {
    /// Serves a connection until it ends.
    pub(super) async fn serve(self, io: Box<dyn ByteStream>, share: ConnectionQuota) {
        let remote = share.remote();
        match self.run(io, share).await {
            Ok(reason) => tracing::debug!(%remote, reason, "redis connection closed"),
            Err(error) => tracing::debug!(%remote, %error, "redis connection failed"),
        }
    }

    async fn run(
        &self,
        io: Box<dyn ByteStream>,
        share: ConnectionQuota,
    ) -> io::Result<&'static str> {
        let mut session = RedisSession::new(self.shared, share.remote());
        let executor = BatchExecutor {
            sequence: self.sequence,
            share: &share,
            batch_items_max: self.batch_items_max,
        };
        let mut socket = BufferedSocket::new(io);
        let mut pending = PendingRequests::default();
        let mut reservation = BufferReservation {
            buffers: &self.shared.buffers,
            counted_bytes: 0,
        };
        // Sent once the requests before the error are answered.
        let mut protocol_error = None;
        let opened_at = Instant::now();
        // The server shuts down, and this connection reads for the last time.
        let mut is_last_read = false;
        // Time of the last command, and of the first byte of the request that is not complete yet.
        let (mut last_command_at, mut request_began_at) = (opened_at, None);
        let mut tick = interval(STALL_CHECK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(self.shutdown.cancelled());
        loop {
            if session.ended {
                return socket.flush_and_close("QUIT or another protocol").await;
            }
            if pending.has_next() && socket.unsent_bytes() <= UNSENT_BYTES_MAX {
                let (batch, next_index) = pending.next_batch(&session);
                let command_count = batch.command_count();
                if reservation.try_resize(
                    socket.buffered_bytes() + pending.data.len() + batch.estimated_bytes(),
                ) {
                    batch
                        .execute(&executor, &pending.data, &mut session, &mut socket.replies)
                        .await;
                } else {
                    batch.reject_for_memory(&mut session, &mut socket.replies);
                }
                pending.next_index = next_index;
                if command_count > 0 && self.idle_timeout.is_some() {
                    last_command_at = Instant::now();
                }
                if session.owes_rejection() {
                    let written = poll_fn(|cx| Poll::Ready(socket.write_available(cx))).await;
                    let delay = tokio::time::sleep(WRONG_SECRET_DELAY);
                    let _ = self.shutdown.run_until_cancelled(delay).await;
                    written?;
                    if !session.answer_wrong_password(&mut socket.replies) {
                        return socket.flush_and_close("too many wrong passwords").await;
                    }
                }
                // Other connections run first, so that a thread executes everything that has
                // arrived before it sends the first reply. A client that reads several connections
                // is not woken up for each.
                tokio::task::yield_now().await;
                poll_fn(|cx| Poll::Ready(socket.write_available(cx))).await?;
                continue;
            }
            if !pending.has_next() {
                pending.clear();
                if protocol_error.is_none() {
                    protocol_error = pending
                        .parser
                        .parse(&mut socket.read_buffer, PARSED_REQUESTS_MAX)
                        .err();
                }
                if protocol_error.is_none()
                    && socket.unsent_bytes() <= UNSENT_BYTES_MAX
                    && socket.buffered_bytes() <= UNCOUNTED_BYTES
                    && pending.is_single_request(&socket.read_buffer)
                    && try_execute_single(
                        pending.parser.request_words(0, &socket.read_buffer),
                        self.sequence,
                        &session,
                        &mut socket.replies,
                    )
                {
                    pending.clear();
                    socket.read_buffer.clear();
                    request_began_at = None;
                    if self.idle_timeout.is_some() {
                        last_command_at = Instant::now();
                    }
                    poll_fn(|cx| Poll::Ready(socket.write_available(cx))).await?;
                    tokio::task::consume_budget().await;
                    continue;
                }
                if pending.parser.request_count() > 0 {
                    pending.data = socket.split_complete(pending.parser.complete_bytes());
                    request_began_at = None;
                    continue;
                }
                if let Some(protocol_error) = protocol_error {
                    socket
                        .replies
                        .write_error(&format!("ERR Protocol error: {protocol_error}"));
                    return socket.flush_and_close("malformed request").await;
                }
                // A password is short.
                if !session.authenticated && socket.read_buffer.len() > READ_BUFFER_MAX {
                    socket
                        .replies
                        .write_error("ERR Protocol error: unauthenticated");
                    return socket
                        .flush_and_close("too many bytes before the password")
                        .await;
                }
                if socket.read_buffer.is_empty() {
                    request_began_at = None;
                } else {
                    request_began_at = request_began_at.or_else(|| Some(Instant::now()));
                }
            }
            if !reservation.try_resize(socket.buffered_bytes() + pending.data.len()) {
                return Ok("memory limit of requests and replies");
            }
            let may_read = !pending.has_next();
            if may_read && self.shared.is_shutting_down() {
                // The server answers what has arrived until now, and nothing that arrives later.
                if is_last_read {
                    return socket.flush_and_close("server shutdown").await;
                }
                is_last_read = true;
                tokio::time::sleep(SHUTDOWN_READ_GRACE).await;
            }
            match socket
                .wait_for_event(may_read, &mut tick, stop.as_mut())
                .await?
            {
                ConnectionEvent::Progress => {}
                ConnectionEvent::PeerClosed => {
                    return socket.flush_and_close("closed by the peer").await;
                }
                ConnectionEvent::Shutdown if is_last_read => {
                    return socket.flush_and_close("server shutdown").await;
                }
                ConnectionEvent::Shutdown => {}
                ConnectionEvent::Tick => {
                    let now = Instant::now();
                    if socket
                        .blocked_since
                        .is_some_and(|since| now - since > WRITE_STALL_TIMEOUT)
                    {
                        return Ok("peer reads no replies");
                    }
                    if socket.unsent_bytes() > UNSENT_BYTES_MAX {
                        // The connection reads nothing during that time, even if bytes have
                        // arrived.
                        request_began_at = request_began_at.map(|_| now);
                    }
                    if request_began_at
                        .is_some_and(|began_at| now - began_at > REQUEST_READ_TIMEOUT)
                    {
                        socket.replies.write_error(
                            "ERR Protocol error: the request was not received within 10 s",
                        );
                        return socket.flush_and_close("request not received in time").await;
                    }
                    let is_auth_late = !session.authenticated && now - opened_at > AUTH_TIMEOUT;
                    let is_idle = self
                        .idle_timeout
                        .is_some_and(|max| now - last_command_at > max);
                    if is_auth_late || (is_idle && socket.unsent_bytes() == 0) {
                        return socket.flush_and_close("idle timeout").await;
                    }
                    socket.release_idle_buffers();
                }
            }
        }
    }
}

impl PendingRequests {
    fn has_next(&self) -> bool {
        self.next_index < self.parser.request_count()
    }

    /// Returns whether `bytes` are one request, and no part of another.
    fn is_single_request(&self, bytes: &[u8]) -> bool {
        self.parser.request_count() == 1 && self.parser.complete_bytes() == bytes.len()
    }

    /// Returns the next commands that are executed together, and the index of the first request
    /// after them.
    fn next_batch(&self, session: &RedisSession<'_>) -> (CommandBatch<'_>, usize) {
        let mut batch = CommandBatch::with_capacity(self.parser.request_count() - self.next_index);
        let mut words: Vec<&[u8]> = Vec::new();
        let mut index = self.next_index;
        while index < self.parser.request_count() {
            words.clear();
            words.extend(self.parser.request_words(index, &self.data));
            // An empty request has no answer, as in Redis.
            if !words.is_empty() && !batch.try_add(&words, session) {
                break;
            }
            index += 1;
        }
        (batch, index)
    }

    /// Discards the answered requests.
    fn clear(&mut self) {
        self.parser.discard_complete();
        self.data = Bytes::new();
        self.next_index = 0;
    }
}

#[cfg(test)]
mod tests;
