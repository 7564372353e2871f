//! One Redis connection: reads requests, executes them in batches, writes the replies.
//!
//! Invariants:
//! - Replies leave in the order of their commands.
//! - While the peer has not read more than [`UNSENT_BYTES_MAX`] bytes of replies, the connection
//!   executes and reads nothing.
//! - The bytes that the connection holds are counted (`shared`).
//! - A connection is closed in time when its peer reads nothing, or stops in the middle of a request.
//! - At a shutdown a connection answers the requests that it has received completely.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use seqsvr_proto::LocalSequence;
use seqsvr_proto::transport::{Io, STUCK_AFTER, Share};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::redis::command_batch::{CommandBatch, try_execute_single};
use crate::redis::executor::BatchExecutor;
use crate::redis::parser::RequestParser;
use crate::redis::reply::ReplyBuffer;
use crate::redis::session::RedisSession;
use crate::redis::shared::{BufferReservation, RedisShared, UNCOUNTED_BYTES};

/// Maximum time from the first byte of a request to its last; then the connection is closed.
const REQUEST_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of unsent replies; above it the connection executes and reads nothing.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// Maximum requests that are parsed before they are answered; the others wait.
const PARSED_REQUESTS_MAX: usize = 4_096;
/// Minimum bytes of a read buffer: little, for connections that send single commands.
const READ_BUFFER_MIN: usize = 4 << 10;
/// Maximum bytes of one read.
const READ_BUFFER_MAX: usize = UNCOUNTED_BYTES / 2;
/// Time for bytes that are in transit at a shutdown to arrive.
const SHUTDOWN_READ_GRACE: Duration = Duration::from_millis(50);
/// Time for the peer to read the last replies. Then the socket is closed, even if the peer still
/// sends.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time until a connection sends the password, if there is one; then it is closed.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the checks for a connection that makes no progress.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The context of serving one connection.
pub(super) struct RedisConnection<'a, S> {
    pub(super) sequence: &'a S,
    pub(super) shared: &'a RedisShared,
    /// Maximum items of one call.
    pub(super) items_max: usize,
    /// Time without a command after which the connection is closed; None: no limit.
    pub(super) idle_timeout: Option<Duration>,
    pub(super) shutdown: CancellationToken,
}

/// The reason why a wait of the connection ended.
enum ConnectionEvent {
    /// Bytes were read, or enough replies were sent to execute more.
    Progress,
    /// The peer sends no more.
    PeerClosed,
    /// It is time to check for a stall.
    Tick,
    /// The server shuts down.
    Shutdown,
}

/// The socket of a connection, with the buffers of both directions.
struct BufferedSocket {
    io: Box<dyn Io>,
    read_buffer: BytesMut,
    /// Bytes of the allocation of which `read_buffer` is a part.
    read_capacity: usize,
    /// Replies; those that are not sent begin at `sent_bytes`.
    replies: ReplyBuffer,
    sent_bytes: usize,
    /// Set while the peer does not read fast enough: the time when it last read something, or when
    /// the first reply could not be sent.
    blocked_since: Option<Instant>,
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
    pub(super) async fn serve(self, io: Box<dyn Io>, share: Share) {
        let remote = share.remote();
        match self.run(io, share).await {
            Ok(why) => tracing::debug!(%remote, why, "a connection ended"),
            Err(error) => tracing::debug!(%remote, %error, "a connection ended"),
        }
    }

    async fn run(&self, io: Box<dyn Io>, share: Share) -> io::Result<&'static str> {
        let mut session = RedisSession::new(self.shared, share.remote());
        let executor = BatchExecutor {
            sequence: self.sequence,
            shared: self.shared,
            share: &share,
            items_max: self.items_max,
        };
        let mut socket = BufferedSocket::new(io);
        let mut pending = PendingRequests::default();
        let mut reservation = BufferReservation::new(self.shared);
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
                return socket
                    .flush_and_close("it said QUIT, or speaks another protocol")
                    .await;
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
                // Other connections run first, so that a thread executes everything that has arrived
                // before it sends the first reply. A client that reads several connections is not
                // woken up for each.
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
                    return socket.flush_and_close("it sent what is no request").await;
                }
                // A password is short.
                if !session.authenticated && socket.read_buffer.len() > READ_BUFFER_MAX {
                    socket
                        .replies
                        .write_error("ERR Protocol error: unauthenticated");
                    return socket.flush_and_close("it sent much and no password").await;
                }
                if socket.read_buffer.is_empty() {
                    request_began_at = None;
                } else {
                    request_began_at = request_began_at.or_else(|| Some(Instant::now()));
                }
            }
            if !reservation.try_resize(socket.buffered_bytes() + pending.data.len()) {
                return Ok("no room for its requests and answers");
            }
            let may_read = !pending.has_next();
            if may_read && self.shared.is_shutting_down() {
                // The server answers what has arrived until now, and nothing that arrives later.
                if is_last_read {
                    return socket.flush_and_close("the server stops").await;
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
                    return socket.flush_and_close("its other end closed it").await;
                }
                ConnectionEvent::Shutdown if is_last_read => {
                    return socket.flush_and_close("the server stops").await;
                }
                ConnectionEvent::Shutdown => {}
                ConnectionEvent::Tick => {
                    let now = Instant::now();
                    if socket
                        .blocked_since
                        .is_some_and(|since| now - since > STUCK_AFTER)
                    {
                        return Ok("it takes no answers");
                    }
                    if socket.unsent_bytes() > UNSENT_BYTES_MAX {
                        // The connection reads nothing during that time, even if bytes have arrived.
                        request_began_at = request_began_at.map(|_| now);
                    }
                    if request_began_at
                        .is_some_and(|began_at| now - began_at > REQUEST_READ_TIMEOUT)
                    {
                        socket.replies.write_error(
                            "ERR Protocol error: the request was not received within 10 s",
                        );
                        return socket
                            .flush_and_close("a request took too long to arrive")
                            .await;
                    }
                    let is_auth_late = !session.authenticated && now - opened_at > AUTH_TIMEOUT;
                    let is_idle = self
                        .idle_timeout
                        .is_some_and(|max| now - last_command_at > max);
                    if is_auth_late || (is_idle && socket.unsent_bytes() == 0) {
                        return socket.flush_and_close("it was idle for too long").await;
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

    /// Returns the next commands that are executed together, and the index of the first request after
    /// them.
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

impl BufferedSocket {
    fn new(io: Box<dyn Io>) -> BufferedSocket {
        BufferedSocket {
            io,
            read_buffer: BytesMut::new(),
            read_capacity: 0,
            replies: ReplyBuffer::default(),
            sent_bytes: 0,
            blocked_since: None,
        }
    }

    fn unsent_bytes(&self) -> usize {
        self.replies.bytes.len() - self.sent_bytes
    }

    /// Returns the bytes that the buffers hold.
    fn buffered_bytes(&self) -> usize {
        self.read_capacity + self.replies.bytes.capacity()
    }

    /// Takes the first `byte_count` bytes that were read. The rest does not keep a large buffer.
    fn split_complete(&mut self, byte_count: usize) -> Bytes {
        let complete = self.read_buffer.split_to(byte_count).freeze();
        if self.read_capacity > UNCOUNTED_BYTES {
            self.read_buffer = BytesMut::from(&self.read_buffer[..]);
            self.read_capacity = self.read_buffer.capacity();
        }
        complete
    }

    /// Gives the read buffer back while nothing arrives.
    fn release_idle_buffers(&mut self) {
        if self.read_buffer.is_empty() {
            (self.read_buffer, self.read_capacity) = (BytesMut::new(), 0);
        }
    }

    /// Writes replies and waits for bytes, if it `may_read`, or until more may be executed.
    async fn wait_for_event(
        &mut self,
        may_read: bool,
        tick: &mut Interval,
        mut stop: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> io::Result<ConnectionEvent> {
        poll_fn(|cx| {
            self.write_available(cx)?;
            if self.unsent_bytes() <= UNSENT_BYTES_MAX {
                if !may_read {
                    return Poll::Ready(Ok(ConnectionEvent::Progress));
                }
                if let Poll::Ready(n) = self.read_available(cx)? {
                    return Poll::Ready(Ok(if n == 0 {
                        ConnectionEvent::PeerClosed
                    } else {
                        ConnectionEvent::Progress
                    }));
                }
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(ConnectionEvent::Shutdown));
                }
            }
            tick.poll_tick(cx).map(|_| Ok(ConnectionEvent::Tick))
        })
        .await
    }

    /// Writes as many replies as the socket accepts now.
    fn write_available(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let before = self.sent_bytes;
        while self.unsent_bytes() > 0 {
            let unsent = &self.replies.bytes[self.sent_bytes..];
            match Pin::new(&mut self.io).poll_write(cx, unsent)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(n) => self.sent_bytes += n,
                Poll::Pending => {
                    if self.sent_bytes > before || self.blocked_since.is_none() {
                        self.blocked_since = Some(Instant::now());
                    }
                    // A client that always reads a little late must not make us keep all sent bytes.
                    if self.sent_bytes >= self.replies.bytes.len() / 2 {
                        self.replies.bytes.drain(..self.sent_bytes);
                        self.sent_bytes = 0;
                    }
                    return Ok(());
                }
            }
        }
        (self.blocked_since, self.sent_bytes) = (None, 0);
        self.replies.bytes.clear();
        // The memory of one large reply is given back.
        self.replies.bytes.shrink_to(UNCOUNTED_BYTES / 2);
        Ok(())
    }

    /// Appends the bytes that have arrived to the read buffer.
    fn read_available(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read_buffer.capacity() - self.read_buffer.len() < READ_BUFFER_MIN / 2 {
            // More each time, for long requests.
            let additional =
                (self.read_buffer.len() + READ_BUFFER_MIN).clamp(READ_BUFFER_MIN, READ_BUFFER_MAX);
            self.read_buffer.reserve(additional);
            self.read_capacity = self.read_capacity.max(self.read_buffer.capacity());
        }
        let io = Pin::new(&mut self.io);
        let mut limited = (&mut self.read_buffer).limit(READ_BUFFER_MAX);
        tokio_util::io::poll_read_buf(io, cx, &mut limited)
    }

    /// Writes the remaining replies, and closes the connection.
    async fn flush_and_close(mut self, why: &'static str) -> io::Result<&'static str> {
        let written = poll_fn(|cx| {
            self.write_available(cx)?;
            match self.unsent_bytes() {
                0 => Pin::new(&mut self.io).poll_shutdown(cx),
                _ => Poll::Pending,
            }
        });
        match tokio::time::timeout(STUCK_AFTER, written).await {
            Ok(written) => written?,
            Err(_) => return Ok("it takes no answers"),
        }
        // Closing with unread bytes would reset the connection, and the last answers with it.
        let mut rest = [0; 4_096];
        let rest = async {
            while self.io.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LINGER_TIMEOUT, rest).await;
        Ok(why)
    }
}

#[cfg(test)]
mod tests;
