//! The responses of one Pipe: frames of many calls in one stream each way.
//!
//! Frames that have been received together are answered together, on the task of the connection.
//! Items that memory holds are answered at once. The others are served by a task of their own, so
//! that no slow item delays another. No frame is read while responses are not consumed: HTTP/2
//! polls this stream only when there is room to send, and this stream polls for frames only after
//! it has answered all that it read. A deferred frame counts as a call of its own, with its bytes,
//! and is rejected above the limits of calls. Its waiting items are bounded by their permits
//! (`wait_limiter`).
//!
//! Invariant: each item of a frame is answered once, if the caller consumes the responses. Waiting
//! items do not keep the bytes of their frame alive.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use seqsvr_access::Caller;
use seqsvr_net::{ConnectionQuota, RetainedBytes, StreamMeter, UnsentResponse};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::{CALL_TIMEOUT_DEFAULT, ITEMS_MAX};
use seqsvr_proto::v1::{
    NextIdsRequest, PipeRequest, PipeResponse, Reason, pipe_request, pipe_response,
};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Status, Streaming};

use crate::api::sequence_parts::SequenceParts;
use crate::batch::request::{BatchOperation, BatchRequest};
use crate::batch::request_context::response_deadline;
use crate::batch::response::BatchResponse;
use crate::fast_path::FastPathResult;
use crate::ids::family_holders::TakenIds;
use crate::metrics::call_metrics::CallMethod;
use crate::session::routing_table_cell::RoutingTableCell;

/// Maximum frames answered together. Above it the task yields to other tasks of the thread.
const FRAMES_PER_POLL_MAX: usize = 32;
/// Number of items above which no more frames are added to those answered together.
const ITEMS_PER_POLL_TARGET: usize = 1_024;

/// Items as which a frame of ids counts there: ids cost less than items.
const IDS_FRAME_ITEMS: usize = ITEMS_PER_POLL_TARGET / 8;

/// Stream of the responses of one Pipe.
pub(crate) struct PipeResponses {
    parts: Arc<SequenceParts>,
    /// Who opened it. Each frame is judged, because the frames of one Pipe are for many namespaces.
    caller: Caller,
    share: Option<ConnectionQuota>,
    messages: Option<StreamMeter>,
    requests: Streaming<PipeRequest>,
    /// Whether the request stream has ended.
    has_ended: bool,
    /// Error that ended the request stream, if it did not end normally.
    stream_error: Option<Status>,
    /// Responses not consumed yet, each with the table version of its caller.
    answers: VecDeque<(PipeResponse, u64)>,
    /// Tasks of frames with items that wait.
    deferred: JoinSet<(PipeResponse, Option<UnsentResponse>)>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Whether the client has been sent the notice that this node stops.
    is_closing_sent: bool,
}

/// Frames that were read together.
#[derive(Default)]
struct ReadFrames {
    /// Frames of sequences.
    metas: Vec<FrameMeta>,
    frames: Vec<BatchRequest>,
    /// Frames of ids that are answered.
    ids_answered: u64,
    /// Time of the first frame.
    begun: Option<Instant>,
}

/// Metadata of a frame.
#[derive(Clone, Copy)]
struct FrameMeta {
    received_at: Instant,
    id: u64,
    timeout_ms: u32,
}

impl FrameMeta {
    /// Returns when its answer must be on its way.
    fn deadline(&self) -> Instant {
        let timeout = match self.timeout_ms {
            0 => CALL_TIMEOUT_DEFAULT,
            ms => Duration::from_millis(u64::from(ms)),
        };
        response_deadline(self.received_at, timeout)
    }
}

impl PipeResponses {
    pub(crate) fn new(
        parts: Arc<SequenceParts>,
        caller: Caller,
        request: Request<Streaming<PipeRequest>>,
    ) -> PipeResponses {
        PipeResponses {
            stopping: Box::pin(parts.shared.stopping.clone().cancelled_owned()),
            parts,
            caller,
            share: request.extensions().get().cloned(),
            messages: request.extensions().get().cloned(),
            requests: request.into_inner(),
            has_ended: false,
            stream_error: None,
            answers: VecDeque::new(),
            deferred: JoinSet::new(),
            is_closing_sent: false,
        }
    }

    /// Reads the frames that have been received, up to the limits of what is answered together.
    /// Those of ids are answered at once.
    fn read_frames(&mut self, cx: &mut Context<'_>) -> ReadFrames {
        let (mut read, mut items) = (ReadFrames::default(), 0);
        while read.frames.len() + self.answers.len() < FRAMES_PER_POLL_MAX
            && items < ITEMS_PER_POLL_TARGET
        {
            match Pin::new(&mut self.requests).poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(request))) => {
                    if let Some(messages) = &self.messages {
                        messages.message_taken();
                    }
                    // One clock reading serves all frames.
                    let received_at = *read.begun.get_or_insert_with(Instant::now);
                    let meta = FrameMeta {
                        received_at,
                        id: request.id,
                        timeout_ms: request.timeout_ms,
                    };
                    if let Some(pipe_request::Operation::Ids(request)) = &request.operation {
                        items += IDS_FRAME_ITEMS;
                        read.ids_answered += u64::from(self.answer_ids(meta, request));
                        continue;
                    }
                    match self.to_batch_request(request) {
                        Ok(frame) => {
                            items += frame.len();
                            read.frames.push(frame);
                            read.metas.push(meta);
                        }
                        Err(fault) => self.reject_frame(meta.id, &fault),
                    }
                }
                Poll::Ready(end) => {
                    self.has_ended = true;
                    self.stream_error = end.and_then(Result::err);
                    break;
                }
            }
        }
        read
    }

    /// Answers a frame of ids, or begins to wait for them; returns whether it has the answer.
    fn answer_ids(&mut self, meta: FrameMeta, request: &NextIdsRequest) -> bool {
        let begun = match request.runs {
            true => Err(RpcError::new(
                Reason::Invalid,
                "a Pipe carries ids, no runs",
            )),
            false => {
                let families = &self.parts.families;
                families.begin(&self.caller, request, ITEMS_MAX as u32)
            }
        };
        match begun {
            Ok(mut taken) => match taken.take_now() {
                Ok(()) => {
                    self.answers.push_back((ids_response(meta.id, taken), 0));
                    return true;
                }
                Err(_) => self.wait_for_ids(meta, taken),
            },
            Err(fault) => self.reject_frame(meta.id, &fault),
        }
        false
    }

    /// Starts a task that waits for the ids of a frame. It belongs to this runtime: what it waits
    /// for is the time, not work.
    fn wait_for_ids(&mut self, meta: FrameMeta, mut taken: TakenIds) {
        let retained = self
            .messages
            .as_ref()
            .map(|m| m.retain(taken.count() * size_of::<u64>()));
        let retained = match retained.transpose() {
            Ok(retained) => retained,
            Err(status) => return self.reject_frame(meta.id, &RpcError::from_status(&status)),
        };
        let (parts, share) = (self.parts.clone(), self.share.clone());
        let waiting = async move {
            let _kept = retained;
            let call_metrics = &parts.shared.call_metrics;
            let timer = call_metrics.start_call(CallMethod::Pipe, meta.received_at);
            let answer = match parts
                .wait_for_ids(&mut taken, share.as_ref(), meta.deadline())
                .await
            {
                Ok(()) => ids_response(meta.id, taken),
                Err(fault) => {
                    call_metrics.record_failure(fault.reason());
                    rejected_response(meta.id, &fault)
                }
            };
            timer.stop();
            (answer, share.as_ref().map(ConnectionQuota::begin_response))
        };
        self.deferred.spawn(waiting);
    }

    /// Returns the batch that a frame carries.
    fn to_batch_request(&self, request: PipeRequest) -> Result<BatchRequest, RpcError> {
        let frame = match request.operation {
            Some(pipe_request::Operation::Next(next)) => BatchRequest::from(next),
            Some(pipe_request::Operation::Current(current)) => BatchRequest::from(current),
            Some(pipe_request::Operation::Ids(_)) | None => {
                let text = "the frame has no operation; set `next`, `current` or `ids`";
                return Err(RpcError::new(Reason::Invalid, text));
            }
        };
        self.parts.shared.own_cluster.check(frame.cluster)?;
        frame.check_right(&self.caller)?;
        frame.validate(self.parts.batch_items_max)?;
        Ok(frame)
    }

    /// Queues the answers of the fast path, and starts a task for the missed items.
    fn push_results(&mut self, meta: FrameMeta, frame: BatchRequest, result: FastPathResult) {
        let FrameMeta { id, .. } = meta;
        let FastPathResult {
            answers, missed, ..
        } = result;
        let (all, version) = (frame.len(), frame.table_version);
        let answered_count = all - missed.len();
        if answered_count > 0 {
            let items = match missed.is_empty() {
                true => Vec::new(),
                false => answered_indexes(&missed, all),
            };
            let answer = partial_response(id, items, &frame, answers);
            self.answers.push_back((answer, version));
        }
        if missed.is_empty() {
            return;
        }
        let frame = frame.retain_items(&missed);
        let retained = self
            .messages
            .as_ref()
            .map(|m| m.retain(frame.retained_bytes()));
        match retained.transpose() {
            Ok(retained) => self.serve_slow(meta, frame, missed, retained),
            Err(status) if answered_count == 0 => {
                self.reject_frame(id, &RpcError::from_status(&status))
            }
            Err(status) => {
                let fault = RpcError::from_status(&status);
                missed.iter().for_each(|_| {
                    self.parts
                        .shared
                        .call_metrics
                        .record_failure(fault.reason())
                });
                let mut columns = BatchResponse::with_capacity(missed.len());
                missed
                    .iter()
                    .for_each(|_| columns.push_answer(&Err(fault.clone())));
                let answer = partial_response(id, missed, &frame, columns);
                self.answers.push_back((answer, version));
            }
        }
    }

    /// Rejects a frame.
    fn reject_frame(&mut self, id: u64, fault: &RpcError) {
        self.parts
            .shared
            .call_metrics
            .record_failure(fault.reason());
        self.answers.push_back((rejected_response(id, fault), 0));
    }

    fn serve_slow(
        &mut self,
        meta: FrameMeta,
        frame: BatchRequest,
        missed: Vec<u32>,
        retained: Option<RetainedBytes>,
    ) {
        let FrameMeta {
            received_at, id, ..
        } = meta;
        let (parts, share) = (self.parts.clone(), self.share.clone());
        let (deadline, caller) = (meta.deadline(), self.caller.clone());
        let served = async move {
            let _kept = retained;
            let timer = parts
                .shared
                .call_metrics
                .start_call(CallMethod::Pipe, received_at);
            let call = frame.to_context(&caller, deadline, share.clone(), None);
            let columns = parts.slow_path.serve_batch_slow(&call, &frame).await;
            let mut answer = partial_response(id, missed, &frame, columns);
            attach_routes(
                &parts.shared.table,
                &caller,
                &mut answer,
                frame.table_version,
            );
            timer.stop();
            (answer, share.as_ref().map(ConnectionQuota::begin_response))
        };
        self.parts
            .shared
            .background
            .spawn_into_set(&mut self.deferred, served);
    }
}

impl Stream for PipeResponses {
    type Item = Result<PipeResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.is_closing_sent && self.stopping.as_mut().poll(cx).is_ready() {
            self.is_closing_sent = true;
            let go_away = PipeResponse {
                go_away: true,
                ..PipeResponse::default()
            };
            return Poll::Ready(Some(Ok(go_away)));
        }
        loop {
            if let Some((mut answer, version)) = self.answers.pop_front() {
                attach_routes(&self.parts.shared.table, &self.caller, &mut answer, version);
                return Poll::Ready(Some(Ok(answer)));
            }
            if let Some(status) = self.stream_error.take() {
                return Poll::Ready(Some(Err(status)));
            }
            // Polled before each wait for a frame, because reading a frame may have added the first
            // task. An empty set wakes no task.
            while let Poll::Ready(Some(done)) = self.deferred.poll_join_next(cx) {
                match done {
                    Ok((answer, _taken)) => return Poll::Ready(Some(Ok(answer))),
                    // Only a bug ends a task this way. The caller's deadline then expires.
                    Err(error) => tracing::error!(%error, "frame task failed"),
                }
            }
            if self.has_ended {
                return match self.deferred.is_empty() {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                };
            }
            let ReadFrames {
                metas,
                frames,
                ids_answered,
                begun,
            } = self.read_frames(cx);
            if frames.is_empty() && self.answers.is_empty() {
                if self.has_ended {
                    continue;
                }
                if begun.is_some() {
                    // Frames of ids wait: their tasks are polled, and the next frames.
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
            let results = self.parts.fast_path.try_batches(&frames);
            if let Some(begun) = begun {
                let complete_count = results
                    .iter()
                    .filter(|result| result.missed.is_empty())
                    .count();
                self.parts.shared.call_metrics.record_calls(
                    CallMethod::Pipe,
                    begun.elapsed(),
                    complete_count as u64 + ids_answered,
                );
            }
            for ((meta, frame), result) in metas.into_iter().zip(frames).zip(results) {
                self.push_results(meta, frame, result);
            }
            if self.answers.is_empty() {
                // Yields to other tasks of the thread before the next frames.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

/// Attaches newer routes to a response, if there are any.
fn attach_routes(table: &RoutingTableCell, caller: &Caller, answer: &mut PipeResponse, known: u64) {
    let routes = match &mut answer.answer {
        Some(pipe_response::Answer::Next(next)) => &mut next.routes,
        Some(pipe_response::Answer::Current(current)) => &mut current.routes,
        Some(pipe_response::Answer::Rejected(_) | pipe_response::Answer::Ids(_)) | None => return,
    };
    *routes = table.routes_since(known, caller);
}

/// Returns the response for these items of a frame; no items stand for all.
fn partial_response(
    id: u64,
    items: Vec<u32>,
    frame: &BatchRequest,
    mut columns: BatchResponse,
) -> PipeResponse {
    columns.drop_implied_columns(frame.has_counts());
    let answer = match frame.operation {
        BatchOperation::Next => pipe_response::Answer::Next(columns.into_next()),
        BatchOperation::Current => pipe_response::Answer::Current(columns.into_current()),
    };
    PipeResponse {
        id,
        items,
        answer: Some(answer),
        go_away: false,
    }
}

/// Returns the indices below `all` that are not missed.
fn answered_indexes(missed: &[u32], all: usize) -> Vec<u32> {
    let mut missed = missed.iter().peekable();
    let hit = |i: &u32| missed.next_if(|at| *at == i).is_none();
    (0..all as u32).filter(hit).collect()
}

fn ids_response(id: u64, taken: TakenIds) -> PipeResponse {
    PipeResponse {
        id,
        answer: Some(pipe_response::Answer::Ids(taken.into_answer())),
        ..PipeResponse::default()
    }
}

fn rejected_response(id: u64, fault: &RpcError) -> PipeResponse {
    PipeResponse {
        id,
        answer: Some(pipe_response::Answer::Rejected(fault.to_item_error(0))),
        ..PipeResponse::default()
    }
}
