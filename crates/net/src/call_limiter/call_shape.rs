//! Shapes of calls, by what is bounded of them.

/// How the messages of a call are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallShape {
    /// A stream of a standard service, such as a watch of health: it costs memory for as long as
    /// its caller keeps it. A connection has at most
    /// [`STANDARD_STREAMS_MAX`](crate::STANDARD_STREAMS_MAX). Its request may have many messages,
    /// with any time between them; one that has begun is bounded as that of any call.
    StandardStream,
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
    /// Returns the shape of a method of health or reflection; None: it is of another service.
    pub fn of_standard_service(path: &str) -> Option<CallShape> {
        match path {
            "/grpc.health.v1.Health/Watch" => Some(CallShape::StandardStream),
            _ if path.starts_with("/grpc.reflection.") => Some(CallShape::StandardStream),
            _ if path.starts_with("/grpc.health.") => Some(CallShape::Unary),
            _ => None,
        }
    }

    /// Returns whether the caller may send many messages, with any time between them, and the
    /// method reports each that it took.
    pub(crate) fn has_request_stream(self) -> bool {
        matches!(self, CallShape::Pipe | CallShape::RequestStream)
    }
}
