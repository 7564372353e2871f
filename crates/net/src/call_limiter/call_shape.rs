//! Shapes of calls, by what is bounded of them.

/// How the messages of a call are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallShape {
    /// Only counted as a call.
    Counted,
    /// One request and one answer.
    Unary,
    /// A unary call of `Sequence`: the items of its request are counted as well.
    Sequence,
    /// The stream of `Sequence`, in both directions. Its method reports each frame that it took by
    /// the [`StreamMeter`](crate::StreamMeter) in its request's extensions.
    Pipe,
    /// A stream of requests, whose method reports each that it took as a Pipe does; one answer.
    RequestStream,
    /// One request and a stream of answers, whose sender bounds them.
    ResponseStream,
}

impl CallShape {
    /// Returns whether the caller may send many messages, with any time between them.
    pub(crate) fn has_request_stream(self) -> bool {
        matches!(self, CallShape::Pipe | CallShape::RequestStream)
    }
}
