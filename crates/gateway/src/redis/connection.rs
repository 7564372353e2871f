//! One Redis connection: reads requests, executes them go by go, writes the answers.
//!
//! Invariants: answers leave in the order of their commands. While more than [`UNSENT_MAX`] bytes
//! of answers are not taken nothing more is executed or read. What is held is counted (`about`). A
//! connection whose other end takes nothing, or stops in the middle of a request, is closed in
//! time. At a shutdown a connection answers the requests that it has received whole.

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

use super::about::{About, FREE, Held};
use super::asked::Asked;
use super::go::{Go, at_once};
use super::reply::Replies;
use super::request::Requests;
use super::session::Session;

/// Longest time that a request may take to arrive, once it has begun.
const RECEIVED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of answers above which nothing more is executed or read.
const UNSENT_MAX: usize = 1 << 20;
/// Most requests read before they are answered.
const READ_MAX: usize = 4_096;
/// Room for the bytes of one read: little for a connection that sends single commands.
const ROOM_MIN: usize = 4 << 10;
const ROOM_MAX: usize = FREE / 2;
/// How long bytes that are on their way at a shutdown have to arrive.
const GRACE: Duration = Duration::from_millis(50);
/// How long the other end may take to read the last answers before the rest of what it sends is
/// rejected.
const LINGER: Duration = Duration::from_secs(1);
/// How long a connection may take to give the password, if there is one.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);
/// How often a connection is checked for things that have not moved.
const TICK: Duration = Duration::from_secs(2);

/// The context of serving one connection.
pub(super) struct Service<'a, S> {
    pub(super) sequence: &'a S,
    pub(super) about: &'a About,
    /// Most items of one batch.
    pub(super) items_max: usize,
    /// Time without a command after which the connection is closed; None: no limit.
    pub(super) idle_max: Option<Duration>,
    pub(super) stopping: CancellationToken,
}

/// The reason why a wait for more ended.
enum Event {
    /// Something was read, or so many answers were taken that more may be executed.
    Moved,
    /// The other end sends no more.
    End,
    Tick,
    Stop,
}

/// The two directions of a connection, and their bytes.
struct Wire {
    io: Box<dyn Io>,
    read: BytesMut,
    /// Bytes that `read` is a part of.
    room: usize,
    /// Answers; `replies.bytes` from `sent` on.
    replies: Replies,
    sent: usize,
    /// For answers that could not be sent at once: when some were taken last, or else when they
    /// became due.
    taken: Option<Instant>,
}

/// Whole requests, some of which are not answered.
#[derive(Default)]
struct Pending {
    requests: Requests,
    /// Bytes of the requests.
    data: Bytes,
    next: usize,
}

impl<S: LocalSequence> Service<'_, S> {
    /// Serves a connection until it ends.
    pub(super) async fn serve(self, io: Box<dyn Io>, share: Share) {
        let remote = share.remote();
        match self.run(io, share).await {
            Ok(why) => tracing::debug!(%remote, why, "a connection ended"),
            Err(error) => tracing::debug!(%remote, %error, "a connection ended"),
        }
    }

    async fn run(&self, io: Box<dyn Io>, share: Share) -> io::Result<&'static str> {
        let mut session = Session::new(self.about, share.remote());
        let asked = Asked {
            sequence: self.sequence,
            about: self.about,
            share: &share,
            items_max: self.items_max,
        };
        let mut wire = Wire::new(io);
        let mut pending = Pending::default();
        let mut held = Held::new(self.about);
        // What cannot be read any more, once the requests before it are answered.
        let mut broken = None;
        let opened = Instant::now();
        // The server shuts down, and the connection is read for the last time.
        let mut last = false;
        // When the last command was executed, and when the request that is not whole yet began.
        let (mut done, mut begun) = (opened, None);
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(self.stopping.cancelled());
        loop {
            if session.ended {
                return wire
                    .finish("it said QUIT, or speaks another protocol")
                    .await;
            }
            if pending.is_left() && wire.unsent() <= UNSENT_MAX {
                let (go, next) = pending.go(&session);
                let size = go.len();
                if held.is(wire.held() + pending.data.len() + go.bytes()) {
                    go.run(&asked, &pending.data, &mut session, &mut wire.replies)
                        .await;
                } else {
                    go.refuse(&mut session, &mut wire.replies);
                }
                pending.next = next;
                if size > 0 && self.idle_max.is_some() {
                    done = Instant::now();
                }
                // Others have their turn first: so a thread answers everything that has arrived
                // before it sends the first answer. A caller that reads several connections is not
                // woken up for each.
                tokio::task::yield_now().await;
                poll_fn(|cx| Poll::Ready(wire.write(cx))).await?;
                continue;
            }
            if !pending.is_left() {
                pending.clear();
                if broken.is_none() {
                    broken = pending.requests.read(&mut wire.read, READ_MAX).err();
                }
                if broken.is_none()
                    && wire.unsent() <= UNSENT_MAX
                    && wire.held() <= FREE
                    && pending.is_alone(&wire.read)
                    && at_once(
                        pending.requests.words(0, &wire.read),
                        self.sequence,
                        &session,
                        &mut wire.replies,
                    )
                {
                    pending.clear();
                    wire.read.clear();
                    begun = None;
                    if self.idle_max.is_some() {
                        done = Instant::now();
                    }
                    poll_fn(|cx| Poll::Ready(wire.write(cx))).await?;
                    tokio::task::consume_budget().await;
                    continue;
                }
                if pending.requests.len() > 0 {
                    pending.data = wire.take(pending.requests.end());
                    begun = None;
                    continue;
                }
                if let Some(broken) = broken {
                    wire.replies.error(&format!("ERR Protocol error: {broken}"));
                    return wire.finish("it sent what is no request").await;
                }
                // A password is short.
                if !session.authenticated && wire.read.len() > ROOM_MAX {
                    wire.replies.error("ERR Protocol error: unauthenticated");
                    return wire.finish("it sent much and no password").await;
                }
                if wire.read.is_empty() {
                    begun = None;
                } else {
                    begun = begun.or_else(|| Some(Instant::now()));
                }
            }
            if !held.is(wire.held() + pending.data.len()) {
                return Ok("no room for its requests and answers");
            }
            let reads = !pending.is_left();
            if reads && self.about.is_stopping() {
                // What has arrived until now is answered, and nothing that arrives after it.
                if last {
                    return wire.finish("the server stops").await;
                }
                last = true;
                tokio::time::sleep(GRACE).await;
            }
            match wire.exchange(reads, &mut tick, stop.as_mut()).await? {
                Event::Moved => {}
                Event::End => return wire.finish("its other end closed it").await,
                Event::Stop if last => return wire.finish("the server stops").await,
                Event::Stop => {}
                Event::Tick => {
                    let now = Instant::now();
                    if wire.taken.is_some_and(|taken| now - taken > STUCK_AFTER) {
                        return Ok("it takes no answers");
                    }
                    if wire.unsent() > UNSENT_MAX {
                        // Nothing is read during that time, even if bytes have arrived.
                        begun = begun.map(|_| now);
                    }
                    if begun.is_some_and(|begun| now - begun > RECEIVED_WITHIN) {
                        wire.replies
                            .error("ERR Protocol error: the request was not received within 10 s");
                        return wire.finish("a request took too long to arrive").await;
                    }
                    let late = !session.authenticated && now - opened > KNOWN_WITHIN;
                    let idle = self.idle_max.is_some_and(|most| now - done > most);
                    if late || (idle && wire.unsent() == 0) {
                        return wire.finish("it was idle for too long").await;
                    }
                    wire.rest();
                }
            }
        }
    }
}

impl Pending {
    fn is_left(&self) -> bool {
        self.next < self.requests.len()
    }

    /// Returns whether these bytes are one request, and nothing of another.
    fn is_alone(&self, bytes: &[u8]) -> bool {
        self.requests.len() == 1 && self.requests.end() == bytes.len()
    }

    /// Returns the next commands that are executed together, and where the following ones begin.
    fn go(&self, session: &Session<'_>) -> (Go<'_>, usize) {
        let mut go = Go::with_capacity(self.requests.len() - self.next);
        let mut words: Vec<&[u8]> = Vec::new();
        let mut next = self.next;
        while next < self.requests.len() {
            words.clear();
            words.extend(self.requests.words(next, &self.data));
            // An empty request has no answer, as in Redis.
            if !words.is_empty() && !go.add(&words, session) {
                break;
            }
            next += 1;
        }
        (go, next)
    }

    /// Discards what was answered.
    fn clear(&mut self) {
        self.requests.forget();
        self.data = Bytes::new();
        self.next = 0;
    }
}

impl Wire {
    fn new(io: Box<dyn Io>) -> Wire {
        Wire {
            io,
            read: BytesMut::new(),
            room: 0,
            replies: Replies::default(),
            sent: 0,
            taken: None,
        }
    }

    fn unsent(&self) -> usize {
        self.replies.bytes.len() - self.sent
    }

    /// Returns the bytes that it holds.
    fn held(&self) -> usize {
        self.room + self.replies.bytes.capacity()
    }

    /// Takes the bytes that were read whole. The rest does not keep a large buffer for itself.
    fn take(&mut self, n: usize) -> Bytes {
        let taken = self.read.split_to(n).freeze();
        if self.room > FREE {
            self.read = BytesMut::from(&self.read[..]);
            self.room = self.read.capacity();
        }
        taken
    }

    /// Keeps no buffer while nothing arrives.
    fn rest(&mut self) {
        if self.read.is_empty() {
            (self.read, self.room) = (BytesMut::new(), 0);
        }
    }

    /// Writes answers and waits for more to read, if it `reads`, or to execute.
    async fn exchange(
        &mut self,
        reads: bool,
        tick: &mut Interval,
        mut stop: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> io::Result<Event> {
        poll_fn(|cx| {
            self.write(cx)?;
            if self.unsent() <= UNSENT_MAX {
                if !reads {
                    return Poll::Ready(Ok(Event::Moved));
                }
                if let Poll::Ready(n) = self.fill(cx)? {
                    return Poll::Ready(Ok(if n == 0 { Event::End } else { Event::Moved }));
                }
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Ok(Event::Stop));
                }
            }
            tick.poll_tick(cx).map(|_| Ok(Event::Tick))
        })
        .await
    }

    /// Writes what can be written now.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let before = self.sent;
        while self.unsent() > 0 {
            let unsent = &self.replies.bytes[self.sent..];
            match Pin::new(&mut self.io).poll_write(cx, unsent)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(n) => self.sent += n,
                Poll::Pending => {
                    if self.sent > before || self.taken.is_none() {
                        self.taken = Some(Instant::now());
                    }
                    // A caller that is always somewhat behind must not make us keep all sent bytes.
                    if self.sent >= self.replies.bytes.len() / 2 {
                        self.replies.bytes.drain(..self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
            }
        }
        (self.taken, self.sent) = (None, 0);
        self.replies.bytes.clear();
        // One large answer must not keep its memory permanently.
        self.replies.bytes.shrink_to(FREE / 2);
        Ok(())
    }

    /// Reads the bytes that have arrived, behind the bytes that are there.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read.capacity() - self.read.len() < ROOM_MIN / 2 {
            // More each time, for long requests.
            let more = (self.read.len() + ROOM_MIN).clamp(ROOM_MIN, ROOM_MAX);
            self.read.reserve(more);
            self.room = self.room.max(self.read.capacity());
        }
        let io = Pin::new(&mut self.io);
        let mut some = (&mut self.read).limit(ROOM_MAX);
        tokio_util::io::poll_read_buf(io, cx, &mut some)
    }

    /// Writes what is left, and closes the connection.
    async fn finish(mut self, why: &'static str) -> io::Result<&'static str> {
        let written = poll_fn(|cx| {
            self.write(cx)?;
            match self.unsent() {
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
        let _ = tokio::time::timeout(LINGER, rest).await;
        Ok(why)
    }
}

#[cfg(test)]
mod tests;
