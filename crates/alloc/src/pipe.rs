//! A Pipe: frames of many calls in one stream each way.
//!
//! Frames are answered as they come, those that have come together together, on the connection's
//! own task: what memory holds at once, the rest by a task of its own, so that no slow item hides
//! another. Nothing is read while answers are not taken: HTTP/2 polls this stream only when there
//! is room to send, and this stream polls for frames only when it is polled and has answered all it
//! read. What is served later counts as a call of its own, with its bytes, and is refused above the
//! bounds of calls; its items that wait are bounded by their places (`waiting`).
//!
//! Invariant: each item of a frame is answered once, if the caller takes the answers; a frame's
//! bytes are not kept by items that wait.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::Stream;
use seqsvr_proto::error::Fault;
use seqsvr_proto::limits::DEADLINE_DEFAULT;
use seqsvr_proto::transport::{Kept, Messages, Owed, Share};
use seqsvr_proto::v1::{PipeRequest, PipeResponse, Reason, pipe_request, pipe_response};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Status, Streaming};

use crate::columns::{BatchResponse, item_error};
use crate::frame::{BatchOperation, BatchRequest};
use crate::hits::FastPathResult;
use crate::node::Node;
use crate::request::within;
use crate::timing::CallMethod;

/// Frames answered together, and looked at before other tasks of the thread have their turn.
const FRAMES_AT_ONCE: usize = 32;
/// Items from which on no more frames are added to those answered together.
const ITEMS_AT_ONCE: usize = 1_024;

/// The answers of one Pipe.
pub(crate) struct PipeResponses {
    node: Arc<Node>,
    share: Option<Share>,
    messages: Option<Messages>,
    requests: Streaming<PipeRequest>,
    /// The caller sends no more.
    ended: bool,
    /// Why, if it was not its wish.
    failed: Option<Status>,
    /// Answers not taken yet, and which routing table their caller knows.
    answers: VecDeque<(PipeResponse, u64)>,
    /// Frames with items that wait.
    slow: JoinSet<(PipeResponse, Option<Owed>)>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The caller was told that this node stops.
    told: bool,
}

/// What is known of a frame besides.
struct FrameMeta {
    at: Instant,
    id: u64,
    timeout_ms: u32,
}

impl PipeResponses {
    pub(crate) fn new(node: Arc<Node>, request: Request<Streaming<PipeRequest>>) -> PipeResponses {
        PipeResponses {
            stopping: Box::pin(node.stopping.clone().cancelled_owned()),
            node,
            share: request.extensions().get().cloned(),
            messages: request.extensions().get().cloned(),
            requests: request.into_inner(),
            ended: false,
            failed: None,
            answers: VecDeque::new(),
            slow: JoinSet::new(),
            told: false,
        }
    }

    /// Reads what has come, as much as is answered together.
    fn read(&mut self, cx: &mut Context<'_>) -> (Vec<FrameMeta>, Vec<BatchRequest>) {
        let (mut asked, mut frames, mut items) = (Vec::new(), Vec::new(), 0);
        // One reading for all of them.
        let mut begun = None;
        while frames.len() + self.answers.len() < FRAMES_AT_ONCE && items < ITEMS_AT_ONCE {
            match Pin::new(&mut self.requests).poll_next(cx) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(request))) => {
                    if let Some(messages) = &self.messages {
                        messages.taken();
                    }
                    let at = *begun.get_or_insert_with(Instant::now);
                    let (id, timeout_ms) = (request.id, request.timeout_ms);
                    match self.frame(request) {
                        Ok(frame) => {
                            items += frame.len();
                            frames.push(frame);
                            asked.push(FrameMeta { at, id, timeout_ms });
                        }
                        Err(fault) => self.refuse(id, &fault),
                    }
                }
                Poll::Ready(end) => {
                    self.ended = true;
                    self.failed = end.and_then(Result::err);
                    break;
                }
            }
        }
        (asked, frames)
    }

    /// What a request asks for.
    fn frame(&self, request: PipeRequest) -> Result<BatchRequest, Fault> {
        let frame = match request.ask {
            Some(pipe_request::Ask::Next(next)) => BatchRequest::from(next),
            Some(pipe_request::Ask::Current(current)) => BatchRequest::from(current),
            None => {
                let text = "the frame asks nothing; give `next` or `current`";
                return Err(Fault::new(Reason::Invalid, text));
            }
        };
        self.node.cluster.check(frame.cluster)?;
        frame.check(self.node.items_max)?;
        Ok(frame)
    }

    /// What could be answered of a frame at once; the rest goes on by itself.
    fn answer(&mut self, asked: FrameMeta, frame: BatchRequest, hits: FastPathResult) {
        let FrameMeta { id, .. } = asked;
        let FastPathResult {
            columns, missed, ..
        } = hits;
        let (all, version) = (frame.len(), frame.table_version);
        let hits = all - missed.len();
        if hits > 0 {
            let items = match missed.is_empty() {
                true => Vec::new(),
                false => others(&missed, all),
            };
            let answer = part(id, items, &frame, columns);
            self.answers.push_back((answer, version));
        }
        if missed.is_empty() {
            return;
        }
        let frame = frame.only(&missed);
        let kept = self.messages.as_ref().map(|m| m.keep(frame.bytes()));
        match kept.transpose() {
            Ok(kept) => self.serve_later(asked, frame, missed, kept),
            Err(status) if hits == 0 => self.refuse(id, &Fault::from_status(&status)),
            Err(status) => {
                let fault = Fault::from_status(&status);
                missed
                    .iter()
                    .for_each(|_| self.node.timing.failed(fault.reason()));
                let mut columns = BatchResponse::with_capacity(missed.len());
                missed
                    .iter()
                    .for_each(|_| columns.push(&Err(fault.clone())));
                let answer = part(id, missed, &frame, columns);
                self.answers.push_back((answer, version));
            }
        }
    }

    /// Refuses a frame.
    fn refuse(&mut self, id: u64, fault: &Fault) {
        self.node.timing.failed(fault.reason());
        self.answers.push_back((refused(id, fault), 0));
    }

    fn serve_later(
        &mut self,
        asked: FrameMeta,
        frame: BatchRequest,
        missed: Vec<u32>,
        kept: Option<Kept>,
    ) {
        let FrameMeta { at, id, timeout_ms } = asked;
        let timeout = match timeout_ms {
            0 => DEADLINE_DEFAULT,
            ms => Duration::from_millis(u64::from(ms)),
        };
        let (node, share) = (self.node.clone(), self.share.clone());
        let deadline = within(at, timeout);
        let served = async move {
            let _kept = kept;
            let underway = node.timing.begin(CallMethod::Pipe, at);
            let call = frame.call(deadline, share.clone(), None);
            let columns = node.serve_frame(&call, &frame).await;
            let mut answer = part(id, missed, &frame, columns);
            node.tell_routes(&mut answer, frame.table_version);
            underway.end();
            (answer, share.as_ref().map(Share::owe))
        };
        self.node.background.spawn_in(&mut self.slow, served);
    }
}

impl Stream for PipeResponses {
    type Item = Result<PipeResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.told && self.stopping.as_mut().poll(cx).is_ready() {
            self.told = true;
            let closing = PipeResponse {
                closing: true,
                ..PipeResponse::default()
            };
            return Poll::Ready(Some(Ok(closing)));
        }
        loop {
            if let Some((mut answer, version)) = self.answers.pop_front() {
                self.node.tell_routes(&mut answer, version);
                return Poll::Ready(Some(Ok(answer)));
            }
            if let Some(status) = self.failed.take() {
                return Poll::Ready(Some(Err(status)));
            }
            // Before each wait for a frame, since a frame may have added the first of them: an
            // empty set wakes nobody.
            while let Poll::Ready(Some(done)) = self.slow.poll_join_next(cx) {
                match done {
                    Ok((answer, _taken)) => return Poll::Ready(Some(Ok(answer))),
                    // Only a bug ends a task so; its caller runs into its deadline.
                    Err(error) => tracing::error!(%error, "a frame was not served"),
                }
            }
            if self.ended {
                return match self.slow.is_empty() {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                };
            }
            let (asked, frames) = self.read(cx);
            if frames.is_empty() && self.answers.is_empty() {
                match self.ended {
                    true => continue,
                    false => return Poll::Pending,
                }
            }
            let all = self.node.hit_all(&frames);
            if let Some(first) = asked.first() {
                let whole = all.iter().filter(|hits| hits.missed.is_empty()).count();
                let took = first.at.elapsed();
                self.node.timing.took(CallMethod::Pipe, took, whole as u64);
            }
            for ((asked, frame), hits) in asked.into_iter().zip(frames).zip(all) {
                self.answer(asked, frame, hits);
            }
            if self.answers.is_empty() {
                // Other tasks have their turn before what comes next.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }
}

impl Node {
    /// Adds newer routes to an answer, if there are any.
    fn tell_routes(&self, answer: &mut PipeResponse, known: u64) {
        let routes = match &mut answer.answer {
            Some(pipe_response::Answer::Next(next)) => &mut next.routes,
            Some(pipe_response::Answer::Current(current)) => &mut current.routes,
            Some(pipe_response::Answer::Refused(_)) | None => return,
        };
        *routes = self.table.routes_for(known);
    }
}

/// The answers of these items of a frame (none named: of all).
fn part(
    id: u64,
    items: Vec<u32>,
    frame: &BatchRequest,
    mut columns: BatchResponse,
) -> PipeResponse {
    columns.pack(frame.is_counted());
    let answer = match frame.asks {
        BatchOperation::Next => pipe_response::Answer::Next(columns.into_next()),
        BatchOperation::Current => pipe_response::Answer::Current(columns.into_current()),
    };
    PipeResponse {
        id,
        items,
        answer: Some(answer),
        closing: false,
    }
}

/// Indices below `all` that are not missed.
fn others(missed: &[u32], all: usize) -> Vec<u32> {
    let mut missed = missed.iter().peekable();
    let hit = |i: &u32| missed.next_if(|at| *at == i).is_none();
    (0..all as u32).filter(hit).collect()
}

fn refused(id: u64, fault: &Fault) -> PipeResponse {
    PipeResponse {
        id,
        answer: Some(pipe_response::Answer::Refused(item_error(0, fault))),
        ..PipeResponse::default()
    }
}
