//! The two bodies of a bounded call: the request on its way in, the answer on its way out.

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

/// Longest time a request may take to arrive.
pub(super) const RECEIVED_WITHIN: Duration = Duration::from_secs(10);

/// A request's body on its way in.
pub(super) struct Receiving {
    body: Body,
    held: Arc<Held>,
    /// Runs from the first time the body had to be waited for.
    late: Option<Pin<Box<Sleep>>>,
}

impl Receiving {
    pub(super) fn new(body: Body, held: Arc<Held>) -> Receiving {
        Receiving {
            body,
            held,
            late: None,
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
                let n = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.held.grow(n).map(|()| frame)))
            }
            Poll::Ready(other) => Poll::Ready(other),
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

/// A unary answer, encoded, until its last frame was handed to the connection.
pub(super) struct Answer {
    frames: VecDeque<Frame<Bytes>>,
    held: Arc<Held>,
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
        if let Some(share) = &held.share {
            share.owe();
        }
        let body = Body::new(Answer { frames, held });
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

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(share) = &self.held.share {
            share.taken();
        }
    }
}
