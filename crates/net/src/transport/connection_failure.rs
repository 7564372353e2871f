//! What the status of a call that got no answer says of its connection.

use std::error::Error;
use std::io;
use std::iter::successors;

use h2::Reason;
use tonic::Status;

/// Returns the outermost cause of this type of a status that this process made.
pub fn find_cause<E: Error + 'static>(status: &Status) -> Option<&E> {
    let mut causes = successors(status.source(), |&error| error.source());
    causes.find_map(|error| error.downcast_ref())
}

/// Returns whether the answer was no frame of HTTP/2. The length of a frame is its first three
/// bytes, and text in their place is above every limit.
pub fn has_no_frames(status: &Status) -> bool {
    find_cause::<h2::Error>(status)
        .is_some_and(|error| error.is_library() && error.reason() == Some(Reason::FRAME_SIZE_ERROR))
}

/// Returns whether the two ends do not accept each other: one speaks no TLS, or one has no
/// certificate that the other accepts. A retry at the same server helps only after an operator has
/// changed something.
pub fn is_refused(status: &Status) -> bool {
    let by_http2 = find_cause::<h2::Error>(status);
    let by_tls = find_cause::<io::Error>(status).or(by_http2.and_then(h2::Error::get_io));
    by_tls.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        || by_http2.is_some_and(|error| error.reason() == Some(Reason::INADEQUATE_SECURITY))
}
