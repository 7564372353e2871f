//! A pipe's two ends: the stream of frames to the server, and the task that reads answers.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::limits::MESSAGE_MAX;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{PipeRequest, PipeResponse, Reason, pipe_response};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Request, Streaming};

use crate::client::Inner;
use crate::failure::Failure;
use crate::pipe::{IDLE_TICKS, Pipe, State, TICK};

/// The stream of frames, each made when there is room for it.
struct Writer {
    pipe: Arc<Pipe>,
    /// Other tasks had their turn since there was something to send.
    waited: bool,
}

impl Stream for Writer {
    type Item = PipeRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PipeRequest>> {
        let pipe = self.pipe.clone();
        let mut queue = pipe.queue.lock();
        if queue.frames.is_empty() {
            self.waited = false;
            if queue.state != State::Open {
                return Poll::Ready(None);
            }
            queue.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if !self.waited {
            // A task that is ready to run now may add items to this frame. No time passes if none
            // is ready.
            self.waited = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(frame) = queue.frames.pop_front() else {
            return Poll::Pending;
        };
        queue.usual = (frame.len(), frame.waiters.len());
        let id = queue.next_id;
        queue.next_id += 1;
        let (request, flight) = frame.seal(id);
        queue.flying.insert(id, flight);
        Poll::Ready(Some(request))
    }
}

/// Opens a pipe and reads its answers until it ends.
pub(super) async fn run(pipe: Arc<Pipe>, channel: Channel, inner: Weak<Inner>) {
    let writer = Writer {
        pipe: pipe.clone(),
        waited: false,
    };
    // However this task ends, no caller waits for its pipe after that.
    let _broken = Broken(&pipe);
    let mut client = SequenceClient::new(channel).max_decoding_message_size(MESSAGE_MAX);
    let began = Instant::now();
    let mut looks = Looks::new();
    let own = inner
        .upgrade()
        .map_or(ClusterTag::NONE, |inner| inner.table.cluster_tag());
    let mut request = Request::new(writer);
    own.write_metadata(request.metadata_mut());
    let opening = client.pipe(request);
    tokio::pin!(opening);
    let opened = loop {
        tokio::select! {
            opened = &mut opening => break opened,
            () = looks.next(&pipe, &inner) => if pipe.is_done() { return },
        }
    };
    let failure = match opened {
        Ok(answers) => match check_cluster(&pipe.address, own, answers.metadata()) {
            Ok(()) => read(&pipe, answers.into_inner(), &inner, &mut looks).await,
            Err(failure) => failure,
        },
        Err(status) => Failure::from_status(&pipe.address, &status, began.elapsed()),
    };
    let is_foreign = failure.reason == Reason::ClusterMismatch;
    if (is_foreign || failure.unanswered)
        && let Some(inner) = inner.upgrade()
        && !pipe.is_done()
    {
        inner.note_failure(&pipe.address, &failure);
    }
    pipe.fail(&failure);
}

/// Checks the cluster that the server named when the pipe was opened, before any answer is read.
fn check_cluster(address: &str, own: ClusterTag, metadata: &MetadataMap) -> Result<(), Failure> {
    match ClusterTag::from_metadata(metadata) {
        Ok(server) if server.conflicts_with(own) => {
            Err(Failure::of_other_cluster(address, server, own))
        }
        Ok(_) => Ok(()),
        Err(fault) => Err(Failure::malformed(address, &fault.message)),
    }
}

async fn read(
    pipe: &Pipe,
    mut answers: Streaming<PipeResponse>,
    inner: &Weak<Inner>,
    looks: &mut Looks,
) -> Failure {
    while !pipe.is_done() {
        let answer = tokio::select! {
            biased;
            answer = answers.message() => answer,
            () = looks.next(pipe, inner) => continue,
        };
        match answer {
            Ok(Some(answer)) => pipe.settle(answer, inner),
            Ok(None) => return Failure::unreachable(&pipe.address, "the AllocSvr ended the pipe"),
            Err(status) => {
                return Failure::from_status(&pipe.address, &status, Duration::ZERO);
            }
        }
    }
    Failure::unreachable(&pipe.address, "the pipe is closed")
}

/// Breaks the pipe when dropped.
struct Broken<'a>(&'a Pipe);

impl Drop for Broken<'_> {
    fn drop(&mut self) {
        let why = "the task that reads its answers has ended";
        self.0.fail(&Failure::unreachable(&self.0.address, why));
    }
}

/// The result of a look.
struct Late {
    /// The time of some items was over.
    ended: bool,
    /// Items are left.
    left: bool,
}

/// When to look for items whose time is over: at every tick while there are calls.
struct Looks {
    ticks: tokio::time::Interval,
    idle: u32,
}

impl Looks {
    fn new() -> Looks {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Looks { ticks, idle: 0 }
    }

    /// Waits for the next look, and looks. Cancel-safe.
    async fn next(&mut self, pipe: &Pipe, inner: &Weak<Inner>) {
        if self.idle >= IDLE_TICKS {
            pipe.work.notified().await;
            self.idle = 0;
        }
        self.ticks.tick().await;
        let Late { ended, left } = pipe.fail_late();
        if ended && let Some(inner) = inner.upgrade() {
            inner.servers.silent(&pipe.address);
        }
        match left {
            true => self.idle = 0,
            false => self.idle += 1,
        }
        if self.idle >= IDLE_TICKS && !pipe.sleep() {
            self.idle = 0;
        }
    }
}

impl Pipe {
    /// Ends the items whose time is over.
    fn fail_late(&self) -> Late {
        let now = Instant::now();
        let mut queue = self.queue.lock();
        let mut ended = false;
        for waiter in queue.frames.iter_mut().flat_map(|f| &mut f.waiters) {
            ended |= waiter.fail_late(now, &self.address);
        }
        let mut forgotten = 0;
        queue.flying.retain(|_, flight| {
            ended |= flight.fail_late(now, &self.address);
            let over = flight.is_over(now);
            forgotten += if over { flight.left() } else { 0 };
            !over
        });
        self.ended(&mut queue, forgotten);
        Late {
            ended,
            left: queue.items > 0,
        }
    }

    /// Returns whether the pipe is closed and nothing is left to wait for.
    fn is_done(&self) -> bool {
        let queue = self.queue.lock();
        queue.state != State::Open && queue.items == 0
    }

    /// Makes each later submit wake the driver; does nothing if there are items.
    fn sleep(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.asleep = queue.items == 0;
        queue.asleep
    }

    fn settle(&self, response: PipeResponse, inner: &Weak<Inner>) {
        let PipeResponse {
            id,
            items,
            answer,
            closing,
        } = response;
        if closing {
            return self.close();
        }
        let flight = self.queue.lock().flying.remove(&id);
        let (Some(mut flight), Some(mut answer)) = (flight, answer) else {
            return;
        };
        let routes = match &mut answer {
            pipe_response::Answer::Next(next) => next.routes.take(),
            pipe_response::Answer::Current(current) => current.routes.take(),
            pipe_response::Answer::Refused(_) => None,
        };
        let left = flight.left();
        let inner = inner.upgrade();
        if let Some(inner) = &inner {
            inner.servers.answered(&self.address);
        }
        let learnt = match (routes, inner) {
            (Some(routes), Some(inner)) => inner.learn(&self.address, &routes),
            _ => Ok(()),
        };
        let answered = match learnt {
            Ok(()) => flight.answer(&self.address, &items, answer),
            Err(failure) => {
                flight.fail(&failure);
                left
            }
        };
        let mut queue = self.queue.lock();
        if flight.left() > 0 {
            queue.flying.insert(id, flight);
        }
        self.ended(&mut queue, answered);
    }

    /// Breaks the pipe: every item it has ends with this failure.
    fn fail(&self, failure: &Failure) {
        let (frames, flying) = {
            let mut queue = self.queue.lock();
            queue.state = State::Dead;
            let items = queue.items;
            self.ended(&mut queue, items);
            let frames = std::mem::take(&mut queue.frames);
            (frames, std::mem::take(&mut queue.flying))
        };
        for mut frame in frames {
            frame.waiters.iter_mut().for_each(|w| w.fail(failure));
        }
        for mut flight in flying.into_values() {
            flight.fail(failure);
        }
        self.room.notify_waiters();
    }
}
