//! A pipe's two ends: the stream of frames to the server, and the task that reads answers.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{PipeRequest, PipeResponse, Reason};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Extensions, Request, Streaming};

use crate::attempt::attempt_error::AttemptError;
use crate::pipe::connection::{PipeConnection, PipeState, ScanResult};
use crate::pipe::observer::PipeObserver;

/// Time between two searches for items that timed out.
const TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Searches without calls after which the driver stops searching until the next call.
const IDLE_CHECKS_MAX: u32 = 200;

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
        queue.typical_size = (frame.key_count(), frame.waiters.len());
        let id = queue.next_frame_id;
        queue.next_frame_id += 1;
        let (request, flight) = frame.seal(id);
        queue.in_flight.insert(id, flight);
        Poll::Ready(Some(request))
    }
}

/// Opens a pipe with this metadata and reads its answers until it ends.
pub(super) async fn run_driver<O: PipeObserver>(
    pipe: Arc<PipeConnection>,
    channel: Channel,
    metadata: MetadataMap,
    observer: Weak<O>,
) {
    let writer = FrameWriter {
        pipe: pipe.clone(),
        has_yielded: false,
    };
    // However this task ends, no caller waits for this pipe after that.
    let _fail_on_drop = FailOnDrop(&pipe);
    let mut client = SequenceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let started = Instant::now();
    let mut scanner = TimeoutScanner::new();
    let client_tag = observer
        .upgrade()
        .map_or(ClusterTag::NONE, |observer| observer.cluster_tag());
    let mut request = Request::from_parts(metadata, Extensions::new(), writer);
    client_tag.write_metadata(request.metadata_mut());
    let opening = client.pipe(request);
    tokio::pin!(opening);
    let opened = loop {
        tokio::select! {
            opened = &mut opening => break opened,
            () = scanner.wait_and_scan(&pipe, &observer) => if pipe.is_done() { return },
        }
    };
    let failure = match opened {
        Ok(answers) => match check_cluster(&pipe.address, client_tag, answers.metadata()) {
            Ok(()) => read_answers(&pipe, answers.into_inner(), &observer, &mut scanner).await,
            Err(failure) => failure,
        },
        Err(status) => AttemptError::from_status(&pipe.address, &status, started.elapsed()),
    };
    let is_foreign = failure.reason == Reason::ClusterMismatch;
    if (is_foreign || failure.unanswered)
        && let Some(observer) = observer.upgrade()
        && !pipe.is_done()
    {
        observer.record_failure(&pipe.address, &failure);
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
        Err(invalid) => Err(AttemptError::malformed_reply(address, &invalid.to_string())),
    }
}

async fn read_answers<O: PipeObserver>(
    pipe: &PipeConnection,
    mut answers: Streaming<PipeResponse>,
    observer: &Weak<O>,
    scanner: &mut TimeoutScanner,
) -> AttemptError {
    while !pipe.is_done() {
        let answer = tokio::select! {
            biased;
            answer = answers.message() => answer,
            () = scanner.wait_and_scan(pipe, observer) => continue,
        };
        match answer {
            Ok(Some(answer)) => pipe.handle_response(answer, observer),
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
    async fn wait_and_scan<O: PipeObserver>(&mut self, pipe: &PipeConnection, observer: &Weak<O>) {
        if self.idle_checks >= IDLE_CHECKS_MAX {
            pipe.driver_wakeup.notified().await;
            self.idle_checks = 0;
        }
        self.ticks.tick().await;
        let ScanResult {
            has_expired,
            has_items,
        } = pipe.fail_expired();
        if has_expired && let Some(observer) = observer.upgrade() {
            observer.mark_unresponsive(&pipe.address);
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
