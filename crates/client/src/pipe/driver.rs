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

use crate::call::attempt_error::AttemptError;
use crate::client::ClientCore;
use crate::pipe::{IDLE_CHECKS_MAX, PipeConnection, PipeState, TIMEOUT_CHECK_INTERVAL};

/// Stream of frames, each sealed when the connection has room for it.
struct FrameWriter {
    pipe: Arc<PipeConnection>,
    /// The writer has yielded to other tasks since there was something to send.
    has_yielded: bool,
}

impl Stream for FrameWriter {
    type Item = PipeRequest;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<PipeRequest>> {
        let pipe = self.pipe.clone();
        let mut queue = pipe.queue.lock();
        if queue.unsent.is_empty() {
            self.has_yielded = false;
            if queue.state != PipeState::Open {
                return Poll::Ready(None);
            }
            queue.writer_waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if !self.has_yielded {
            // A task that is ready to run now may add items to this frame. No time passes if none
            // is ready.
            self.has_yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(frame) = queue.unsent.pop_front() else {
            return Poll::Pending;
        };
        queue.typical_size = (frame.item_count(), frame.waiters.len());
        let id = queue.next_frame_id;
        queue.next_frame_id += 1;
        let (request, flight) = frame.seal(id);
        queue.in_flight.insert(id, flight);
        Poll::Ready(Some(request))
    }
}

/// Opens a pipe and reads its answers until it ends.
pub(super) async fn run_driver(
    pipe: Arc<PipeConnection>,
    channel: Channel,
    core: Weak<ClientCore>,
) {
    let writer = FrameWriter {
        pipe: pipe.clone(),
        has_yielded: false,
    };
    // However this task ends, no caller waits for this pipe after that.
    let _fail_on_drop = FailOnDrop(&pipe);
    let mut client = SequenceClient::new(channel).max_decoding_message_size(MESSAGE_MAX);
    let started = Instant::now();
    let mut scanner = TimeoutScanner::new();
    let client_tag = core
        .upgrade()
        .map_or(ClusterTag::NONE, |core| core.table.cluster_tag());
    let mut request = Request::new(writer);
    client_tag.write_metadata(request.metadata_mut());
    let opening = client.pipe(request);
    tokio::pin!(opening);
    let opened = loop {
        tokio::select! {
            opened = &mut opening => break opened,
            () = scanner.wait_and_scan(&pipe, &core) => if pipe.is_done() { return },
        }
    };
    let failure = match opened {
        Ok(answers) => match check_cluster(&pipe.address, client_tag, answers.metadata()) {
            Ok(()) => read_answers(&pipe, answers.into_inner(), &core, &mut scanner).await,
            Err(failure) => failure,
        },
        Err(status) => AttemptError::from_status(&pipe.address, &status, started.elapsed()),
    };
    let is_foreign = failure.reason == Reason::ClusterMismatch;
    if (is_foreign || failure.unanswered)
        && let Some(core) = core.upgrade()
        && !pipe.is_done()
    {
        core.record_failure(&pipe.address, &failure);
    }
    pipe.break_off(&failure);
}

/// Checks the cluster that the server named when the pipe was opened, before any answer is read.
fn check_cluster(
    address: &str,
    client: ClusterTag,
    metadata: &MetadataMap,
) -> Result<(), AttemptError> {
    match ClusterTag::from_metadata(metadata) {
        Ok(server) if server.conflicts_with(client) => {
            Err(AttemptError::foreign_cluster(address, server, client))
        }
        Ok(_) => Ok(()),
        Err(fault) => Err(AttemptError::malformed_reply(address, &fault.message)),
    }
}

async fn read_answers(
    pipe: &PipeConnection,
    mut answers: Streaming<PipeResponse>,
    core: &Weak<ClientCore>,
    scanner: &mut TimeoutScanner,
) -> AttemptError {
    while !pipe.is_done() {
        let answer = tokio::select! {
            biased;
            answer = answers.message() => answer,
            () = scanner.wait_and_scan(pipe, core) => continue,
        };
        match answer {
            Ok(Some(answer)) => pipe.handle_response(answer, core),
            Ok(None) => {
                return AttemptError::unreachable(&pipe.address, "the AllocSvr ended the pipe");
            }
            Err(status) => {
                return AttemptError::from_status(&pipe.address, &status, Duration::ZERO);
            }
        }
    }
    AttemptError::unreachable(&pipe.address, "the pipe is closed")
}

/// Guard that breaks the pipe when dropped.
struct FailOnDrop<'a>(&'a PipeConnection);

impl Drop for FailOnDrop<'_> {
    fn drop(&mut self) {
        let why = "the task that reads its answers has ended";
        self.0
            .break_off(&AttemptError::unreachable(&self.0.address, why));
    }
}

/// Result of a search for items that timed out.
struct ScanResult {
    /// Some items timed out.
    has_expired: bool,
    /// Items are left.
    has_items: bool,
}

/// Schedule of the searches for items that timed out: at every tick while there are calls.
struct TimeoutScanner {
    ticks: tokio::time::Interval,
    idle_checks: u32,
}

impl TimeoutScanner {
    fn new() -> TimeoutScanner {
        let mut ticks = interval(TIMEOUT_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        TimeoutScanner {
            ticks,
            idle_checks: 0,
        }
    }

    /// Waits for the next tick, then fails the items that timed out. Cancel-safe.
    async fn wait_and_scan(&mut self, pipe: &PipeConnection, core: &Weak<ClientCore>) {
        if self.idle_checks >= IDLE_CHECKS_MAX {
            pipe.driver_wakeup.notified().await;
            self.idle_checks = 0;
        }
        self.ticks.tick().await;
        let ScanResult {
            has_expired,
            has_items,
        } = pipe.fail_expired();
        if has_expired && let Some(core) = core.upgrade() {
            core.servers.mark_unresponsive(&pipe.address);
        }
        match has_items {
            true => self.idle_checks = 0,
            false => self.idle_checks += 1,
        }
        if self.idle_checks >= IDLE_CHECKS_MAX && !pipe.try_idle() {
            self.idle_checks = 0;
        }
    }
}

impl PipeConnection {
    /// Fails the items that timed out.
    fn fail_expired(&self) -> ScanResult {
        let now = Instant::now();
        let mut queue = self.queue.lock();
        let mut has_expired = false;
        for waiter in queue.unsent.iter_mut().flat_map(|f| &mut f.waiters) {
            has_expired |= waiter.fail_expired(now, &self.address);
        }
        let mut abandoned = 0;
        queue.in_flight.retain(|_, flight| {
            has_expired |= flight.fail_expired(now, &self.address);
            let is_abandoned = flight.is_abandoned(now);
            if is_abandoned {
                abandoned += flight.unanswered_items();
            }
            !is_abandoned
        });
        self.release_items(&mut queue, abandoned);
        ScanResult {
            has_expired,
            has_items: queue.item_count > 0,
        }
    }

    /// Returns whether the pipe is closed and nothing is left to wait for.
    fn is_done(&self) -> bool {
        let queue = self.queue.lock();
        queue.state != PipeState::Open && queue.item_count == 0
    }

    /// Makes each later submit wake the driver, if there are no items; returns whether it did.
    fn try_idle(&self) -> bool {
        let mut queue = self.queue.lock();
        queue.driver_idle = queue.item_count == 0;
        queue.driver_idle
    }

    /// Applies a response: attached routes first, then the answers of the frame's items.
    fn handle_response(&self, response: PipeResponse, core: &Weak<ClientCore>) {
        let PipeResponse {
            id,
            items,
            answer,
            closing,
        } = response;
        if closing {
            return self.close();
        }
        let flight = self.queue.lock().in_flight.remove(&id);
        let (Some(mut flight), Some(mut answer)) = (flight, answer) else {
            return;
        };
        let routes = match &mut answer {
            pipe_response::Answer::Next(next) => next.routes.take(),
            pipe_response::Answer::Current(current) => current.routes.take(),
            pipe_response::Answer::Refused(_) => None,
        };
        let unanswered = flight.unanswered_items();
        let core = core.upgrade();
        if let Some(core) = &core {
            core.servers.mark_responsive(&self.address);
        }
        let learned = match (routes, core) {
            (Some(routes), Some(core)) => core.learn_routes(&self.address, &routes),
            _ => Ok(()),
        };
        let answered = match learned {
            Ok(()) => flight.deliver(&self.address, &items, answer),
            Err(failure) => {
                flight.fail_all(&failure);
                unanswered
            }
        };
        let mut queue = self.queue.lock();
        if flight.unanswered_items() > 0 {
            queue.in_flight.insert(id, flight);
        }
        self.release_items(&mut queue, answered);
    }

    /// Breaks the pipe: every item in it ends with this failure.
    fn break_off(&self, failure: &AttemptError) {
        let (unsent, in_flight) = {
            let mut queue = self.queue.lock();
            queue.state = PipeState::Broken;
            let items = queue.item_count;
            self.release_items(&mut queue, items);
            let unsent = std::mem::take(&mut queue.unsent);
            (unsent, std::mem::take(&mut queue.in_flight))
        };
        for mut frame in unsent {
            frame.waiters.iter_mut().for_each(|w| w.fail_all(failure));
        }
        for mut flight in in_flight.into_values() {
            flight.fail_all(failure);
        }
        self.room_freed.notify_waiters();
    }
}
