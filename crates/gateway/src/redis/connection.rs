//! One Redis connection: reads what has come, does it go by go, writes the answers.
//!
//! Invariants: answers leave in the order of their commands; nothing more is read while more than
//! [`UNSENT_MAX`] bytes of answers are not taken; a connection whose other end takes nothing, or stops in the
//! middle of a request, is closed in time; one that is told to stop answers what it has received whole.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use seqsvr_proto::transport::{Io, STUCK_AFTER, Share};
use seqsvr_proto::v1::sequence_server::Sequence;
use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::about::{About, FREE, Held};
use super::asked::Asked;
use super::go::Go;
use super::reply::Replies;
use super::request::{Broken, Requests};
use super::session::Session;

/// Longest time a request may take to arrive, once it has begun.
const RECEIVED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of answers above which nothing more is read.
const UNSENT_MAX: usize = 1 << 20;
/// Requests read before they are answered.
const READ_MAX: usize = 4_096;
/// Room for what comes at one time: little for one that sends single commands.
const ROOM_MIN: usize = 4 << 10;
const ROOM_MAX: usize = FREE / 2;
/// How long the other end may take to see the last answers before the rest of what it sends is thrown back.
const LINGER: Duration = Duration::from_secs(1);
/// How often is looked at what has not moved.
const TICK: Duration = Duration::from_secs(2);

/// What one connection is served with.
pub(super) struct Service<'a, S> {
    pub(super) sequence: &'a S,
    pub(super) about: &'a About,
    /// Most items of one batch.
    pub(super) items_max: usize,
    /// It is closed after so long without a command; None: never.
    pub(super) idle_max: Option<Duration>,
    pub(super) stopping: CancellationToken,
}

/// Why a wait for more ended.
enum Event {
    Read,
    /// The other end sends no more.
    End,
    Tick,
    Stop,
}

/// The two directions of a connection, and what is in them.
struct Wire {
    io: Box<dyn Io>,
    read: BytesMut,
    /// Answers; `replies.bytes` from `sent` on.
    replies: Replies,
    sent: usize,
    /// When something was read or written last.
    moved: Instant,
}

impl<S: Sequence> Service<'_, S> {
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
            share: &share,
            items_max: self.items_max,
        };
        let mut wire = Wire {
            io,
            read: BytesMut::new(),
            replies: Replies::default(),
            sent: 0,
            moved: Instant::now(),
        };
        let mut requests = Requests::default();
        let mut held = Held::new(self.about);
        // When the request that is not whole yet began.
        let mut begun: Option<Instant> = None;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = pin!(self.stopping.cancelled());
        loop {
            match wire.exchange(&mut tick, stop.as_mut()).await? {
                Event::Read => {}
                Event::End => return wire.finish("its other end closed it").await,
                Event::Stop => return wire.finish("the server stops").await,
                Event::Tick => {
                    let now = Instant::now();
                    if begun.is_some_and(|begun| now - begun > RECEIVED_WITHIN) {
                        wire.replies
                            .error("ERR Protocol error: the request was not received within 10 s");
                        return wire.finish("a request took too long to arrive").await;
                    }
                    let still = now - wire.moved;
                    if wire.unsent() > 0 && still > STUCK_AFTER {
                        return Ok("it takes no answers");
                    }
                    if self.idle_max.is_some_and(|most| still > most) {
                        return Ok("it was idle for too long");
                    }
                    if wire.read.is_empty() {
                        wire.read = BytesMut::new();
                    }
                    continue;
                }
            }
            let outcome = loop {
                let outcome = requests.read(&mut wire.read, READ_MAX);
                let whole = requests.len();
                if whole > 0 {
                    let end = requests.end();
                    let data = wire.read.split_to(end).freeze();
                    let replies = &mut wire.replies;
                    answer(&asked, &requests, &data, &mut session, replies).await;
                    requests.forget();
                }
                if session.ended || outcome.is_err() || whole < READ_MAX {
                    break outcome;
                }
            };
            if session.ended {
                return wire.finish("it said QUIT").await;
            }
            if self.about.is_stopping() {
                return wire.finish("the server stops").await;
            }
            if let Err(broken) = outcome {
                return wire.refuse(&broken).await;
            }
            if !held.is(wire.read.capacity() + wire.replies.bytes.capacity()) {
                wire.replies.error("ERR this server holds too many bytes of requests and answers; read the answers, or retry later");
                return wire.finish("no room for its requests").await;
            }
            begun = match requests.has_begun(&wire.read) {
                true => begun.or_else(|| Some(Instant::now())),
                false => None,
            };
        }
    }
}

/// Does the whole requests and adds their answers.
async fn answer<S: Sequence>(
    asked: &Asked<'_, S>,
    requests: &Requests,
    data: &bytes::Bytes,
    session: &mut Session<'_>,
    replies: &mut Replies,
) {
    let mut words: Vec<&[u8]> = Vec::new();
    let mut next = 0;
    while next < requests.len() && !session.ended {
        let mut go = Go::default();
        while next < requests.len() {
            words.clear();
            words.extend(requests.words(next, data));
            // An empty request has no answer, as in Redis.
            if !words.is_empty() && !go.add(&words, session) {
                break;
            }
            next += 1;
        }
        go.run(asked, data, session, replies).await;
        tokio::task::consume_budget().await;
    }
}

impl Wire {
    fn unsent(&self) -> usize {
        self.replies.bytes.len() - self.sent
    }

    /// Writes answers and waits for more to read.
    async fn exchange(
        &mut self,
        tick: &mut Interval,
        mut stop: Pin<&mut WaitForCancellationFuture<'_>>,
    ) -> io::Result<Event> {
        poll_fn(|cx| {
            self.write(cx)?;
            if self.unsent() <= UNSENT_MAX
                && let Poll::Ready(n) = self.fill(cx)?
            {
                return Poll::Ready(Ok(if n == 0 { Event::End } else { Event::Read }));
            }
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(Event::Stop));
            }
            tick.poll_tick(cx).map(|_| Ok(Event::Tick))
        })
        .await
    }

    /// Writes what can be written now.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.unsent() > 0 {
            let unsent = &self.replies.bytes[self.sent..];
            match Pin::new(&mut self.io).poll_write(cx, unsent)? {
                Poll::Ready(0) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(n) => {
                    self.sent += n;
                    self.moved = Instant::now();
                }
                Poll::Pending => return Ok(()),
            }
        }
        self.sent = 0;
        self.replies.bytes.clear();
        // One large answer is not to be remembered for ever.
        self.replies.bytes.shrink_to(FREE / 2);
        Ok(())
    }

    /// Reads what has come, behind what is there.
    fn fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = self.read.capacity() - self.read.len();
        if room < ROOM_MIN / 2 {
            // More each time, for what is long.
            let more = (self.read.len() + ROOM_MIN).clamp(ROOM_MIN, ROOM_MAX);
            self.read.reserve(more);
        }
        let io = Pin::new(&mut self.io);
        let read = std::task::ready!(tokio_util::io::poll_read_buf(io, cx, &mut self.read))?;
        self.moved = Instant::now();
        Poll::Ready(Ok(read))
    }

    async fn refuse(mut self, broken: &Broken) -> io::Result<&'static str> {
        self.replies.error(&format!("ERR Protocol error: {broken}"));
        self.finish("it sent what is no request").await
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
