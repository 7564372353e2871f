//! The socket of a Redis connection, with the buffers of both directions.
//!
//! Invariant: the connection sleeps only after it has flushed what it wrote. Schedule that breaks
//! it: the network of a client is full, and TLS takes the last replies into its own buffer. Nothing
//! is left to write, so nothing sends them when the network has room, and the client waits.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use seqsvr_net::{ByteStream, WRITE_STALL_TIMEOUT};
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Interval};
use tokio_util::sync::WaitForCancellationFuture;

use crate::redis::reply::ReplyBuffer;
use crate::redis::shared::UNCOUNTED_BYTES;

/// Minimum bytes of a read buffer: little, for connections that send single commands.
const READ_BUFFER_MIN: usize = 4 << 10;
/// Maximum bytes of one read.
pub(super) const READ_BUFFER_MAX: usize = UNCOUNTED_BYTES / 2;
/// Maximum bytes of unsent replies; above it the connection executes and reads nothing.
pub(super) const UNSENT_BYTES_MAX: usize = 1 << 20;
/// The same while the connection has no identity: so little that, with the doubled capacity of the
/// buffer, none of it is counted.
pub(super) const UNKNOWN_UNSENT_BYTES_MAX: usize = 8 << 10;
/// Time for the peer to read the last replies. Then the socket is closed, even if the peer still
/// sends.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a wait of the connection ended.
pub(super) enum ConnectionEvent {
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
pub(super) struct BufferedSocket {
    io: Box<dyn ByteStream>,
    pub(super) read_buffer: BytesMut,
    /// Bytes of the allocation of which `read_buffer` is a part.
    read_capacity: usize,
    /// Replies; those that are not sent begin at `sent_bytes`.
    pub(super) replies: ReplyBuffer,
    sent_bytes: usize,
    /// Set while the peer does not read fast enough, and there are replies that are not sent or not
    /// flushed: the time when it last read something, or when the first could not be sent.
    pub(super) blocked_since: Option<Instant>,
}

impl BufferedSocket {
    pub(super) fn new(io: Box<dyn ByteStream>) -> BufferedSocket {
        BufferedSocket {
            io,
            read_buffer: BytesMut::new(),
            read_capacity: 0,
            replies: ReplyBuffer::default(),
            sent_bytes: 0,
            blocked_since: None,
        }
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.replies.bytes.len() - self.sent_bytes
    }

    /// Returns the bytes that the buffers hold.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.read_capacity + self.replies.bytes.capacity()
    }

    /// Takes the first `byte_count` bytes that were read. The rest does not keep a large buffer.
    pub(super) fn split_complete(&mut self, byte_count: usize) -> Bytes {
        let complete = self.read_buffer.split_to(byte_count).freeze();
        if self.read_capacity > UNCOUNTED_BYTES {
            self.read_buffer = BytesMut::from(&self.read_buffer[..]);
            self.read_capacity = self.read_buffer.capacity();
        }
        complete
    }

    /// Gives the read buffer back while nothing arrives.
    pub(super) fn release_idle_buffers(&mut self) {
        if self.read_buffer.is_empty() {
            (self.read_buffer, self.read_capacity) = (BytesMut::new(), 0);
        }
    }

    /// Writes replies and waits for bytes, if it `may_read`, or until more may be executed: at most
    /// `unsent_bytes_max` bytes are unsent.
    pub(super) async fn wait_for_event(
        &mut self,
        may_read: bool,
        unsent_bytes_max: usize,
        tick: &mut Interval,
        mut stop: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> io::Result<ConnectionEvent> {
        poll_fn(|cx| {
            self.write_available(cx)?;
            if self.unsent_bytes() <= unsent_bytes_max {
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
    pub(super) fn write_available(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.unsent_bytes() == 0 && self.blocked_since.is_none() {
            return Ok(());
        }
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
                    // A client that always reads a little late must not make the connection keep
                    // all sent bytes.
                    if self.sent_bytes >= self.replies.bytes.len() / 2 {
                        self.replies.bytes.drain(..self.sent_bytes);
                        self.sent_bytes = 0;
                    }
                    return Ok(());
                }
            }
        }
        let has_written = self.sent_bytes > before;
        self.sent_bytes = 0;
        self.replies.bytes.clear();
        // The memory of one large reply is given back.
        self.replies.bytes.shrink_to(UNCOUNTED_BYTES / 2);
        self.blocked_since = match Pin::new(&mut self.io).poll_flush(cx)? {
            Poll::Ready(()) => None,
            Poll::Pending => self
                .blocked_since
                .filter(|_| !has_written)
                .or_else(|| Some(Instant::now())),
        };
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
    pub(super) async fn flush_and_close(
        &mut self,
        reason: &'static str,
    ) -> io::Result<&'static str> {
        let written = poll_fn(|cx| {
            self.write_available(cx)?;
            match self.unsent_bytes() {
                0 => Pin::new(&mut self.io).poll_shutdown(cx),
                _ => Poll::Pending,
            }
        });
        match tokio::time::timeout(WRITE_STALL_TIMEOUT, written).await {
            Ok(written) => written?,
            Err(_) => return Ok("peer reads no replies"),
        }
        // Closing with unread bytes would reset the connection, and the last answers with it.
        let mut rest = [0; 4_096];
        let rest = async {
            while self.io.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        let _ = tokio::time::timeout(LINGER_TIMEOUT, rest).await;
        Ok(reason)
    }
}
