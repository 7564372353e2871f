//! The bodies of a bounded call: the request on its way in, the answer on its way out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::Response;

use super::calls::Held;
use super::entries::Entries;
use super::share::{Owed, Share};

/// Longest time a request may take to arrive.
pub(super) const RECEIVED_WITHIN: Duration = Duration::from_secs(10);

/// A request's body on its way in.
pub(super) struct Receiving {
    body: Body,
    held: Arc<Held>,
    /// Timer that runs from the first wait for the body.
    late: Option<Pin<Box<Sleep>>>,
    /// Whether it has many messages; the wait between them may be without end.
    is_stream: bool,
    entries: Entries,
}

impl Receiving {
    pub(super) fn new(body: Body, held: Arc<Held>) -> Receiving {
        Receiving {
            body,
            held,
            late: None,
            is_stream: false,
            entries: Entries::new(false),
        }
    }

    pub(super) fn stream(body: Body, held: Arc<Held>) -> Receiving {
        Receiving {
            is_stream: true,
            entries: Entries::new(true),
            ..Receiving::new(body, held)
        }
    }
}

impl http_body::Body for Receiving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if self.is_stream && self.held.is_empty() {
                    self.late = None;
                }
                let data = frame.data_ref().map_or(&[][..], |data| data);
                let kept = self.entries.read(data);
                let held = kept.and_then(|kept| self.held.grow(data.len() + kept));
                Poll::Ready(Some(held.map(|()| frame)))
            }
            Poll::Ready(other) => Poll::Ready(other),
            Poll::Pending if self.is_stream && self.held.is_empty() => {
                self.late = None;
                Poll::Pending
            }
            Poll::Pending => {
                let late = self
                    .late
                    .get_or_insert_with(|| Box::pin(sleep(RECEIVED_WITHIN)));
                if late.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let text = format!("the request was not received within {RECEIVED_WITHIN:?}");
                Poll::Ready(Some(Err(Status::deadline_exceeded(text))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A stream of answers; its call is under way as long as it lives.
pub(super) struct Streamed {
    pub(super) body: Body,
    pub(super) _held: Arc<Held>,
}

impl http_body::Body for Streamed {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Encoded unary answer, kept until its last frame was handed to the connection.
pub(super) struct Answer {
    frames: VecDeque<Frame<Bytes>>,
    _held: Arc<Held>,
    _owed: Option<Owed>,
}

impl Answer {
    /// Encodes the answer now: as messages it would be larger, and of unknown size.
    pub(super) async fn of(
        answer: Response<Body>,
        held: Arc<Held>,
    ) -> Result<Response<Body>, Status> {
        let (head, mut body) = answer.into_parts();
        let mut frames = VecDeque::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            frames.push_back(frame?);
        }
        let bytes = frames.iter().filter_map(Frame::data_ref).map(Bytes::len);
        // The request's bytes are not needed any more.
        held.clear();
        held.grow(bytes.sum())?;
        let body = Body::new(Answer {
            frames,
            _owed: held.share.as_ref().map(Share::owe),
            _held: held,
        });
        Ok(Response::from_parts(head, body))
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.frames.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }
}
