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

use crate::call_limiter::call_shape::CallShape;
use crate::call_limiter::change_log::RequestedChange;
use crate::call_limiter::message_framing::MessageFraming;
use crate::call_reservation::CallReservation;
use crate::connection_quota::UnsentResponse;
use crate::entry_scanner::EntryScanner;

/// Longest time a request may take to arrive.
pub(crate) const REQUEST_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A request's body on its way in.
pub(crate) struct RequestBody {
    body: Body,
    reservation: Arc<CallReservation>,
    /// Timer that runs from the first wait for the body.
    read_timer: Option<Pin<Box<Sleep>>>,
    /// Whether it has many messages; the wait between them may be without end.
    is_stream: bool,
    /// Counter of the items; None: messages of other services than `Sequence`.
    entries: Option<EntryScanner>,
    /// Boundaries of the messages, for a method that does not report what it took.
    framing: Option<MessageFraming>,
}

impl RequestBody {
    pub(crate) fn new(
        body: Body,
        reservation: Arc<CallReservation>,
        shape: CallShape,
    ) -> RequestBody {
        RequestBody {
            body,
            reservation,
            read_timer: None,
            is_stream: shape.has_request_stream() || shape == CallShape::StandardStream,
            entries: match shape {
                CallShape::Sequence => Some(EntryScanner::new(false)),
                CallShape::Pipe => Some(EntryScanner::new(true)),
                _ => None,
            },
            framing: (shape == CallShape::StandardStream).then(MessageFraming::default),
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // The method reads on once it has decoded each whole message, so it keeps only what has
        // begun.
        if let Some(framing) = &self.framing {
            self.reservation.release_to(framing.begun_bytes());
        }
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if self.is_stream && self.reservation.is_empty() {
                    self.read_timer = None;
                }
                let data = frame.data_ref().map_or(&[][..], |data| data);
                let framing = self.framing.as_mut();
                if framing.is_some_and(|framing| framing.read(data)) {
                    self.read_timer = None;
                }
                let kept = match &mut self.entries {
                    Some(entries) => entries.read(data),
                    None => Ok(0),
                };
                let held = kept.and_then(|kept| self.reservation.reserve(data.len() + kept));
                Poll::Ready(Some(held.map(|()| frame)))
            }
            Poll::Ready(other) => Poll::Ready(other),
            Poll::Pending if self.is_stream && self.reservation.is_empty() => {
                self.read_timer = None;
                Poll::Pending
            }
            Poll::Pending => {
                let late = self
                    .read_timer
                    .get_or_insert_with(|| Box::pin(sleep(REQUEST_READ_TIMEOUT)));
                if late.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let text = format!("the request was not received within {REQUEST_READ_TIMEOUT:?}");
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

/// An answer that is not buffered; its call is under way as long as it lives.
pub(crate) struct ResponseStream {
    body: Body,
    _reservation: Arc<CallReservation>,
    /// The change that ends with it.
    change: Option<RequestedChange>,
}

impl ResponseStream {
    pub(crate) fn new(
        body: Body,
        reservation: Arc<CallReservation>,
        change: Option<RequestedChange>,
    ) -> ResponseStream {
        ResponseStream {
            body,
            _reservation: reservation,
            change,
        }
    }
}

impl http_body::Body for ResponseStream {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(end) = frame.trailers_ref()
            && let Some(change) = self.change.take()
        {
            change.end_with(end);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Encoded unary answer, kept until its last frame was handed to the connection.
struct LimitedResponse {
    frames: VecDeque<Frame<Bytes>>,
    _reservation: Arc<CallReservation>,
    _unsent: Option<UnsentResponse>,
}

/// Encodes a unary answer now: as messages it would be larger, and of unknown size.
///
/// # Errors
/// That of the answer, or RESOURCE_EXHAUSTED above the bounds of bytes.
pub(crate) async fn buffer_response(
    answer: Response<Body>,
    reservation: Arc<CallReservation>,
) -> Result<Response<Body>, Status> {
    let (head, mut body) = answer.into_parts();
    let mut frames = VecDeque::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        frames.push_back(frame?);
    }
    let bytes = frames.iter().filter_map(Frame::data_ref).map(Bytes::len);
    // The request's bytes are not needed any more.
    reservation.release_all();
    reservation.reserve(bytes.sum())?;
    let body = Body::new(LimitedResponse {
        frames,
        _unsent: reservation.begin_response(),
        _reservation: reservation,
    });
    Ok(Response::from_parts(head, body))
}

impl http_body::Body for LimitedResponse {
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
