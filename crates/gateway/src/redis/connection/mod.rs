//! One Redis connection: reads requests, executes them in batches, writes the replies.
//!
//! Invariants:
//! - Replies leave in the order of their commands.
//! - A command between MULTI and EXEC runs only by EXEC (`transaction`).
//! - While the peer has not read more than [`UNSENT_BYTES_MAX`] bytes of replies, the connection
//!   executes and reads nothing. Without an identity this limit is [`UNKNOWN_UNSENT_BYTES_MAX`], so
//!   that strangers hold no bytes that are counted.
//! - The bytes that the connection holds are counted (`shared`).
//! - A connection is closed in time when its peer reads nothing, or stops in the middle of a
//!   request.
//! - At a shutdown a connection answers the requests that it has received completely.
//! - A connection without an identity is closed in time, also if it always has something to read.
//! - Each command is executed by the identity at its place (`session::identity`).
//! - A wrong token is answered after [`WRONG_SECRET_DELAY`]; the commands after it wait, and the
//!   connection keeps its place among the connections, also if the peer is gone: a guess that does
//!   not wait for its answer is not cheaper. A shutdown ends the wait.

mod pending_requests;
mod socket;
mod transaction_step;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use seqsvr_net::{ByteStream, ConnectionPeer, ConnectionQuota, LocalSequence, WRITE_STALL_TIMEOUT};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::redis::command_batch::try_execute_single;
use crate::redis::executor::BatchTarget;
use crate::redis::parser::ProtocolError;
use crate::redis::session::{RedisSession, SessionIdentity};
use crate::redis::shared::{BufferReservation, RedisShared, TOO_MANY_BYTES, UNCOUNTED_BYTES};
use crate::wrong_secrets::WRONG_SECRET_DELAY;
use pending_requests::PendingRequests;
use socket::{
    BufferedSocket, ConnectionEvent, READ_BUFFER_MAX, UNKNOWN_UNSENT_BYTES_MAX, UNSENT_BYTES_MAX,
};

/// Maximum time from the first byte of a request to its last; then the connection is closed.
const REQUEST_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum requests that are parsed before they are answered; the others wait.
const PARSED_REQUESTS_MAX: usize = 4_096;
/// Time for bytes that are in transit at a shutdown to arrive.
const SHUTDOWN_READ_GRACE: Duration = Duration::from_millis(50);
/// Maximum time of a connection without an identity, before a token or after a wrong one; then it
/// is closed.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the checks for a connection that makes no progress.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The context of serving one connection.
pub(super) struct RedisConnection<'a, S> {
    pub(super) sequence: &'a S,
    /// The other end, after its handshake.
    pub(super) peer: ConnectionPeer,
    pub(super) shared: &'a RedisShared,
    /// Maximum items of one call.
    pub(super) batch_items_max: usize,
    /// Time without a command after which the connection is closed; None: no limit.
    pub(super) idle_timeout: Option<Duration>,
    /// Address of this end.
    pub(super) local: SocketAddr,
    pub(super) shutdown: CancellationToken,
}

impl<S: LocalSequence> RedisConnection<'_, S> {
    /// Serves a connection until it ends.
    pub(super) async fn serve(self, io: Box<dyn ByteStream>) {
        let remote = self.peer.remote();
        match self.run(io).await {
            Ok(reason) => tracing::debug!(%remote, reason, "redis connection closed"),
            Err(error) => tracing::debug!(%remote, %error, "redis connection failed"),
        }
    }

    async fn run(&self, io: Box<dyn ByteStream>) -> io::Result<&'static str> {
        let share = ConnectionQuota::new(self.peer.clone());
        let identity = SessionIdentity::new(self.sequence.access(), &self.peer);
        let mut active = ActiveConnection {
            context: self,
            session: RedisSession::new(self.shared, identity, self.local),
            target: BatchTarget {
                sequence: self.sequence,
                share: &share,
                batch_items_max: self.batch_items_max,
            },
            socket: BufferedSocket::new(io),
            pending: PendingRequests::default(),
            reservation: BufferReservation {
                buffers: &self.shared.buffers,
                counted_bytes: 0,
            },
            protocol_error: None,
            last_command_at: Instant::now(),
            request_began_at: None,
            is_last_read: false,
        };
        active.run().await
    }
}

/// The result of a step of a connection.
enum StepResult {
    /// There may be more to execute or to parse.
    Progress,
    /// Everything that may be executed was.
    Idle,
    /// The connection ends after its replies are sent.
    Close(&'static str),
    /// The connection ends at once.
    Abort(&'static str),
}

/// A connection that is served.
struct ActiveConnection<'a, S> {
    context: &'a RedisConnection<'a, S>,
    session: RedisSession<'a>,
    target: BatchTarget<'a, S>,
    socket: BufferedSocket,
    pending: PendingRequests,
    reservation: BufferReservation<'a>,
    /// Sent once the requests before the error are answered.
    protocol_error: Option<ProtocolError>,
    last_command_at: Instant,
    /// Time of the first byte of the request that is not complete yet.
    request_began_at: Option<Instant>,
    /// The server shuts down, and this connection reads for the last time.
    is_last_read: bool,
}

impl<S: LocalSequence> ActiveConnection<'_, S> {
    /// Serves until the connection ends; returns the reason.
    async fn run(&mut self) -> io::Result<&'static str> {
        let mut tick = interval(STALL_CHECK_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(self.context.shutdown.cancelled());
        loop {
            let mut result = if self.session.ended {
                StepResult::Close("QUIT or another protocol")
            } else if self.is_identity_late() {
                // What a stranger has not read by now does not keep its place.
                match self.socket.blocked_since {
                    Some(_) => StepResult::Abort("no identity in time"),
                    None => StepResult::Close("no identity in time"),
                }
            } else if !self.pending.has_next() {
                self.parse_requests().await?
            } else if self.socket.unsent_bytes() <= self.unsent_bytes_max() {
                self.execute_batch().await?
            } else {
                StepResult::Idle
            };
            if let StepResult::Idle = result {
                result = self.wait_for_event(&mut tick, stop.as_mut()).await?;
            }
            match result {
                StepResult::Progress | StepResult::Idle => {}
                StepResult::Close(reason) => return self.socket.flush_and_close(reason).await,
                StepResult::Abort(reason) => return Ok(reason),
            }
        }
    }

    /// Executes the next requests, and writes their replies.
    async fn execute_batch(&mut self) -> io::Result<StepResult> {
        if let Some(transaction) = self.session.transaction.take() {
            return self.continue_transaction(transaction).await;
        }
        let bytes = self.held_bytes();
        let (batch, next_index) = self.pending.next_batch(self.session.identity.caller());
        let command_count = batch.command_count();
        let (session, replies) = (&mut self.session, &mut self.socket.replies);
        if self.reservation.try_resize(bytes + batch.estimated_bytes()) {
            let data = &self.pending.data;
            batch.execute(&self.target, data, session, replies).await;
        } else {
            batch.reject_items(TOO_MANY_BYTES, self.context.sequence, session, replies);
        }
        self.pending.next_index = next_index;
        if command_count > 0 {
            self.note_command();
        }
        if self.session.owes_rejection() {
            let written = self.write_available().await;
            let delay = tokio::time::sleep(WRONG_SECRET_DELAY);
            let _ = self.context.shutdown.run_until_cancelled(delay).await;
            written?;
            if !self.session.answer_wrong_token(&mut self.socket.replies) {
                return Ok(StepResult::Close("too many wrong tokens"));
            }
        }
        // Other connections run first, so that a thread executes everything that has arrived before
        // it sends the first reply. A client that reads several connections is not woken up for
        // each.
        tokio::task::yield_now().await;
        self.write_available().await?;
        Ok(StepResult::Progress)
    }

    /// Parses what has arrived. Answers it at once if it is a single request for numbers that
    /// memory has.
    async fn parse_requests(&mut self) -> io::Result<StepResult> {
        let (socket, pending) = (&mut self.socket, &mut self.pending);
        pending.clear();
        if self.protocol_error.is_none() {
            let bytes = &mut socket.read_buffer;
            self.protocol_error = pending.parser.parse(bytes, PARSED_REQUESTS_MAX).err();
        }
        if self.protocol_error.is_none()
            && socket.unsent_bytes() <= UNSENT_BYTES_MAX
            && socket.buffered_bytes() <= UNCOUNTED_BYTES
            && pending.is_single_request(&socket.read_buffer)
            && try_execute_single(
                pending.parser.request_words(0, &socket.read_buffer),
                &self.target,
                &self.session,
                &mut socket.replies,
            )
        {
            pending.clear();
            socket.read_buffer.clear();
            self.request_began_at = None;
            self.note_command();
            self.write_available().await?;
            tokio::task::consume_budget().await;
            return Ok(StepResult::Progress);
        }
        if pending.parser.request_count() > 0 {
            pending.data = socket.split_complete(pending.parser.complete_bytes());
            self.request_began_at = None;
            return Ok(StepResult::Progress);
        }
        if let Some(protocol_error) = &self.protocol_error {
            let text = format!("ERR Protocol error: {protocol_error}");
            socket.replies.write_error(&text);
            return Ok(StepResult::Close("malformed request"));
        }
        // A token is short.
        if self.session.identity.caller().is_none() && socket.read_buffer.len() > READ_BUFFER_MAX {
            let text = "ERR Protocol error: unauthenticated";
            socket.replies.write_error(text);
            return Ok(StepResult::Close("too many bytes before the token"));
        }
        self.request_began_at = match socket.read_buffer.is_empty() {
            true => None,
            false => self.request_began_at.or_else(|| Some(Instant::now())),
        };
        Ok(StepResult::Idle)
    }

    /// Writes replies, and waits until more has arrived or may be executed.
    async fn wait_for_event(
        &mut self,
        tick: &mut Interval,
        stop: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> io::Result<StepResult> {
        if !self.reservation.try_resize(self.held_bytes()) {
            let reason = "memory limit of requests and replies";
            return Ok(StepResult::Abort(reason));
        }
        let may_read = !self.pending.has_next();
        if may_read && self.context.shared.is_shutting_down() {
            // The server answers what has arrived until now, and nothing that arrives later.
            if self.is_last_read {
                return Ok(StepResult::Close("server shutdown"));
            }
            self.is_last_read = true;
            tokio::time::sleep(SHUTDOWN_READ_GRACE).await;
        }
        let unsent_bytes_max = self.unsent_bytes_max();
        let event = self
            .socket
            .wait_for_event(may_read, unsent_bytes_max, tick, stop)
            .await?;
        Ok(match event {
            ConnectionEvent::Progress => StepResult::Progress,
            ConnectionEvent::PeerClosed => StepResult::Close("closed by the peer"),
            ConnectionEvent::Shutdown if self.is_last_read => StepResult::Close("server shutdown"),
            ConnectionEvent::Shutdown => StepResult::Progress,
            ConnectionEvent::Tick => self.check_for_stall(),
        })
    }

    /// Ends a connection that makes no progress.
    fn check_for_stall(&mut self) -> StepResult {
        let unsent_bytes_max = self.unsent_bytes_max();
        let (now, socket) = (Instant::now(), &mut self.socket);
        let is_over = |since: Option<Instant>, max| since.is_some_and(|since| now - since > max);
        if is_over(socket.blocked_since, WRITE_STALL_TIMEOUT) {
            return StepResult::Abort("peer reads no replies");
        }
        if socket.unsent_bytes() > unsent_bytes_max {
            // The connection reads nothing during that time, even if bytes have arrived.
            self.request_began_at = self.request_began_at.map(|_| now);
        }
        if is_over(self.request_began_at, REQUEST_READ_TIMEOUT) {
            let text = "ERR Protocol error: the request was not received within 10 s";
            socket.replies.write_error(text);
            return StepResult::Close("request not received in time");
        }
        let idle_timeout = self.context.idle_timeout;
        let is_idle = idle_timeout.is_some_and(|max| is_over(Some(self.last_command_at), max));
        if is_idle && socket.unsent_bytes() == 0 {
            return StepResult::Close("idle timeout");
        }
        socket.release_idle_buffers();
        StepResult::Progress
    }

    /// Returns whether the time to show an identity is over. A connection with one reads no clock.
    fn is_identity_late(&self) -> bool {
        let since = self.session.identity.unknown_since();
        since.is_some_and(|since| since.elapsed() > AUTH_TIMEOUT)
    }

    /// Returns the maximum bytes of unsent replies above which it executes and reads nothing.
    fn unsent_bytes_max(&self) -> usize {
        match self.session.identity.caller() {
            Some(_) => UNSENT_BYTES_MAX,
            None => UNKNOWN_UNSENT_BYTES_MAX,
        }
    }

    /// Returns the bytes that the connection holds.
    fn held_bytes(&self) -> usize {
        let transaction = self.session.transaction.as_ref();
        self.socket.buffered_bytes()
            + self.pending.data.len()
            + transaction.map_or(0, |transaction| transaction.held_bytes())
    }

    /// Notes the time of a command, if the time without one is limited.
    fn note_command(&mut self) {
        if self.context.idle_timeout.is_some() {
            self.last_command_at = Instant::now();
        }
    }

    async fn write_available(&mut self) -> io::Result<()> {
        poll_fn(|cx| Poll::Ready(self.socket.write_available(cx))).await
    }
}

#[cfg(test)]
mod tests;
