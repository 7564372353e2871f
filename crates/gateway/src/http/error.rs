//! The error of a failed request, in the form of HTTP.

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::printable::printable;
use seqsvr_proto::v1::{ItemError, Reason};
use serde::Serialize;
use tonic::{Code, Status};

use super::response;

/// The paths that report on a server, which another port of it may have.
pub(super) const OPERATOR_PATHS: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// An error of a request, or of one item.
#[derive(Debug, Serialize)]
pub(super) struct HttpError {
    #[serde(skip)]
    pub(super) status: StatusCode,
    code: &'static str,
    reason: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "is_zero")]
    retry_after_ms: u32,
}

/// The body of a response with an error.
#[derive(Serialize)]
struct ErrorBody {
    error: HttpError,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl HttpError {
    fn new(code: Code, reason: Reason, message: String, retry_after_ms: u32) -> HttpError {
        let (status, code) = status_and_name(code);
        HttpError {
            status,
            code,
            reason: reason.as_str_name().trim_start_matches("REASON_"),
            // It may have a part of the request, and people read it in a terminal.
            message: printable(&message).into_owned(),
            retry_after_ms,
        }
    }

    /// Returns the error of a request that is invalid by itself.
    pub(super) fn invalid(message: impl Into<String>) -> HttpError {
        HttpError::new(Code::InvalidArgument, Reason::Invalid, message.into(), 0)
    }

    /// Returns the error of a request of the right form, whose fields contradict each other.
    pub(super) fn unprocessable(message: impl Into<String>) -> HttpError {
        let error = HttpError::invalid(message);
        HttpError {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            ..error
        }
    }

    /// Returns the error of a request for which the server has no memory at the moment.
    pub(super) fn overloaded() -> HttpError {
        let message = "too many large requests at a time; retry later".to_owned();
        HttpError::new(Code::Unavailable, Reason::Overloaded, message, 50)
    }

    /// Returns an error for which HTTP itself has a status.
    pub(super) fn with_status(
        status: StatusCode,
        code: Code,
        message: impl Into<String>,
    ) -> HttpError {
        let error = HttpError::new(code, Reason::Invalid, message.into(), 0);
        HttpError { status, ..error }
    }

    /// Returns the error of a path that does not exist.
    pub(super) fn unknown_path(path: &str) -> HttpError {
        let advice = match OPERATOR_PATHS.contains(&path) {
            true => "with --metrics-listen it is at that address only",
            false => "see /v1/openapi.json of an AllocSvr",
        };
        let text = format!("no such path: {path}; {advice}");
        HttpError::with_status(StatusCode::NOT_FOUND, Code::NotFound, text)
    }
}

impl From<Status> for HttpError {
    fn from(status: Status) -> HttpError {
        RpcError::from_status(&status).into()
    }
}

impl From<RpcError> for HttpError {
    fn from(fault: RpcError) -> HttpError {
        let reason = fault.reason();
        let retry_after_ms = fault.detail.retry_after_ms;
        let mut error = HttpError::new(fault.code, reason, fault.message, retry_after_ms);
        // 400 is for what openapi.json rules out. The service also rejects requests that fit it: a
        // uid above the namespace's bound, a floor that the cluster never gave out, columns of
        // different lengths.
        if error.status == StatusCode::BAD_REQUEST {
            error.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        error
    }
}

/// Without the status of HTTP itself.
impl From<HttpError> for Status {
    fn from(error: HttpError) -> Status {
        match error.status {
            StatusCode::UNAUTHORIZED => Status::unauthenticated(error.message),
            _ => Status::unavailable(error.message),
        }
    }
}

impl From<&ItemError> for HttpError {
    fn from(error: &ItemError) -> HttpError {
        let code = Code::from_i32(error.code);
        HttpError::new(
            code,
            error.reason(),
            error.message.clone(),
            error.retry_after_ms,
        )
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let (status, ms) = (self.status, self.retry_after_ms);
        let mut response = response::json_response(status, &ErrorBody { error: self });
        if ms > 0 {
            let seconds = ms.div_ceil(1_000);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        name_scheme_if_unauthenticated(&mut response);
        response
    }
}

/// Adds the scheme by which callers identify themselves to a 401, which must have one (RFC 9110,
/// 15.5.2).
pub(super) fn name_scheme_if_unauthenticated(response: &mut Response) {
    if response.status() == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
}

/// Returns the HTTP status for a gRPC code, and the name of the code.
fn status_and_name(code: Code) -> (StatusCode, &'static str) {
    match code {
        Code::Ok => (StatusCode::OK, "OK"),
        Code::InvalidArgument => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
        Code::OutOfRange => (StatusCode::BAD_REQUEST, "OUT_OF_RANGE"),
        Code::FailedPrecondition => (StatusCode::CONFLICT, "FAILED_PRECONDITION"),
        Code::NotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
        Code::AlreadyExists => (StatusCode::CONFLICT, "ALREADY_EXISTS"),
        Code::Aborted => (StatusCode::CONFLICT, "ABORTED"),
        Code::PermissionDenied => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
        Code::Unauthenticated => (StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
        Code::ResourceExhausted => (StatusCode::TOO_MANY_REQUESTS, "RESOURCE_EXHAUSTED"),
        Code::Unimplemented => (StatusCode::NOT_IMPLEMENTED, "UNIMPLEMENTED"),
        Code::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        Code::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "CANCELLED"),
        Code::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED"),
        Code::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL"),
        Code::DataLoss => (StatusCode::INTERNAL_SERVER_ERROR, "DATA_LOSS"),
        Code::Unknown => (StatusCode::INTERNAL_SERVER_ERROR, "UNKNOWN"),
    }
}
