//! Errors as gRPC statuses.

use seqsvr_net::with_open_files_remedy;
use tonic::Status;

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
pub(crate) fn internal_status(error: std::io::Error) -> Status {
    Status::internal(with_open_files_remedy(error.to_string()))
}

pub(crate) fn unavailable_status(error: impl std::fmt::Display) -> Status {
    Status::unavailable(error.to_string())
}
