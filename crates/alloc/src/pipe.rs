//! A Pipe: frames of many calls in one stream each way.
//!
//! Frames are answered as they come, on the connection's own task: what memory holds at once, the
//! rest by a task of its own, so that no slow item hides another. Nothing is read while answers are
//! not taken: HTTP/2 polls this stream only when there is room to send, and this stream polls for
//! frames only when it is polled. What is served later counts as a call of its own, with its bytes, and
//! is refused above the bounds of calls; its items that wait are bounded by their places (`waiting`).
//!
//! Invariant: each item of a frame is answered once, if the caller takes the answers; a frame's bytes
//! are not kept by items that wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use seqsvr_proto::error::Fault;
use seqsvr_proto::limits::DEADLINE_DEFAULT;
use seqsvr_proto::transport::{Kept, Messages, Owed, Share};
use seqsvr_proto::v1::{PipeRequest, PipeResponse, Reason, pipe_request, pipe_response};
use tokio::task::JoinSet;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Request, Status, Streaming};

use crate::frame::{Asks, Columns, Frame, item_error};
use crate::hits::Hits;
use crate::node::Node;
use crate::request::within;

/// Frames looked at before other tasks of the thread have their turn, if none has a hit.
const FRAMES_AT_ONCE: usize = 32;

/// The answers of one Pipe.
pub(crate) struct Pipe {
    node: Arc<Node>,
    share: Option<Share>,
    messages: Option<Messages>,
    requests: Streaming<PipeRequest>,
    /// The caller sends no more.
    ended: bool,
    /// Frames with items that wait.
    slow: JoinSet<(PipeResponse, Option<Owed>)>,
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The caller was told that this node stops.
    told: bool,
}

impl Pipe {
    pub(crate) fn new(node: Arc<Node>, request: Request<Streaming<PipeRequest>>) -> Pipe {
        Pipe {
            stopping: Box::pin(node.stopping.clone().cancelled_owned()),
            node,
            share: request.extensions().get().cloned(),
            messages: request.extensions().get().cloned(),
            requests: request.into_inner(),
            ended: false,
            slow: JoinSet::new(),
            told: false,
        }
    }

    /// What can be answered of a frame at once; the rest goes on by itself.
    fn answer(&mut self, request: PipeRequest) -> Option<PipeResponse> {
        let PipeRequest {
            id,
            timeout_ms,
            ask,
        } = request;
        let frame = match ask {
            Some(pipe_request::Ask::Next(next)) => Frame::from(next),
            Some(pipe_request::Ask::Current(current)) => Frame::from(current),
            None => {
                let text = "the frame asks nothing; give `next` or `current`";
                return Some(refused(id, &Fault::new(Reason::Invalid, text)));
            }
        };
        if let Err(fault) = frame.check(self.node.items_max) {
            return Some(refused(id, &fault));
        }
        let Hits { columns, missed } = self.node.hit(&frame);
        let all = frame.len();
        let hits = all - missed.len();
        let answered = (hits > 0).then(|| {
            let items = match missed.is_empty() {
                true => Vec::new(),
                false => others(&missed, all),
            };
            self.node.part(id, items, &frame, columns)
        });
        if missed.is_empty() {
            return answered;
        }
        let frame = frame.only(&missed);
        let kept = self.messages.as_ref().map(|m| m.keep(frame.bytes()));
        match kept.transpose() {
            Ok(kept) => self.serve_later(id, timeout_ms, frame, missed, kept),
            Err(status) if hits == 0 => return Some(refused(id, &Fault::from_status(&status))),
            Err(status) => {
                let fault = Fault::from_status(&status);
                let mut columns = Columns::with_capacity(missed.len());
                missed
                    .iter()
                    .for_each(|_| columns.push(&Err(fault.clone())));
                let answer = self.node.part(id, missed, &frame, columns);
                self.slow.spawn(async { (answer, None) });
            }
        }
        answered
    }

    fn serve_later(
        &mut self,
        id: u64,
        timeout_ms: u32,
        frame: Frame,
        missed: Vec<u32>,
        kept: Option<Kept>,
    ) {
        let timeout = match timeout_ms {
            0 => DEADLINE_DEFAULT,
            ms => Duration::from_millis(u64::from(ms)),
        };
        let (node, share) = (self.node.clone(), self.share.clone());
        let deadline = within(timeout);
        let served = async move {
            let _kept = kept;
            let call = frame.call(deadline, share.clone());
            let columns = node.serve_frame(&call, &frame).await;
            let answer = node.part(id, missed, &frame, columns);
            (answer, share.as_ref().map(Share::owe))
        };
        self.node.background.spawn_in(&mut self.slow, served);
    }
}

impl Stream for Pipe {
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
        for _ in 0..FRAMES_AT_ONCE {
            // Before each wait for a frame, since a frame may have added the first of them: an empty set
            // wakes nobody.
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
            match ready!(Pin::new(&mut self.requests).poll_next(cx)) {
                Some(Ok(request)) => {
                    if let Some(messages) = &self.messages {
                        messages.taken();
                    }
                    if let Some(answer) = self.answer(request) {
                        return Poll::Ready(Some(Ok(answer)));
                    }
                }
                Some(Err(status)) => {
                    self.ended = true;
                    return Poll::Ready(Some(Err(status)));
                }
                None => self.ended = true,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Node {
    /// The answers of these items of a frame (none named: of all), and newer routes if there are any.
    fn part(&self, id: u64, items: Vec<u32>, frame: &Frame, mut columns: Columns) -> PipeResponse {
        columns.pack(frame.is_counted());
        let routes = self.table.routes_for(frame.table_version);
        let answer = match frame.asks {
            Asks::Next => {
                let mut next = columns.into_next();
                next.routes = routes;
                pipe_response::Answer::Next(next)
            }
            Asks::Current => {
                let mut current = columns.into_current();
                current.routes = routes;
                pipe_response::Answer::Current(current)
            }
        };
        PipeResponse {
            id,
            items,
            answer: Some(answer),
            closing: false,
        }
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
