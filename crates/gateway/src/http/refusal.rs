//! The reason of a failed request, in the form of HTTP.

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{ItemError, Reason};
use serde::Serialize;
use tonic::{Code, Status};

use super::answer;

/// An error of a request, or of one item.
#[derive(Debug, Serialize)]
pub(super) struct Refusal {
    #[serde(skip)]
    pub(super) status: StatusCode,
    code: &'static str,
    reason: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "is_zero")]
    retry_after_ms: u32,
}

#[derive(Serialize)]
struct Failed {
    error: Refusal,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Refusal {
    fn of(code: Code, reason: Reason, message: String, retry_after_ms: u32) -> Refusal {
        let (status, code) = named(code);
        Refusal {
            status,
            code,
            reason: reason.as_str_name().trim_start_matches("REASON_"),
            message,
            retry_after_ms,
        }
    }

    /// Returns the error of a request that is wrong itself.
    pub(super) fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::of(Code::InvalidArgument, Reason::Invalid, message.into(), 0)
    }

    /// Returns the error of a request of the right form, whose fields do not go together.
    pub(super) fn unprocessable(message: impl Into<String>) -> Refusal {
        let refusal = Refusal::invalid(message);
        Refusal {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            ..refusal
        }
    }

    /// Returns the error of a request for which there is no room at the moment.
    pub(super) fn full() -> Refusal {
        let message = "too many large requests at a time; come again".to_owned();
        Refusal::of(Code::Unavailable, Reason::TooMany, message, 50)
    }

    /// Returns an error for which HTTP itself has a status.
    pub(super) fn http(status: StatusCode, code: Code, message: impl Into<String>) -> Refusal {
        let refusal = Refusal::of(code, Reason::Invalid, message.into(), 0);
        Refusal { status, ..refusal }
    }

    /// Returns the error of a path that does not exist.
    pub(super) fn nothing(path: &str) -> Refusal {
        let text = format!(
            "there is nothing at {path} here; an AllocSvr's /v1/openapi.json tells what there is"
        );
        Refusal::http(StatusCode::NOT_FOUND, Code::NotFound, text)
    }
}

impl From<&Status> for Refusal {
    fn from(status: &Status) -> Refusal {
        let fault = Fault::from_status(status);
        let reason = fault.reason();
        let retry_after_ms = fault.detail.retry_after_ms;
        let mut refusal = Refusal::of(fault.code, reason, fault.message, retry_after_ms);
        // 400 is for what openapi.json rules out. The service also rejects requests that fit it: a
        // uid above the namespace's bound, a floor that the cluster never gave out, columns of
        // different lengths.
        if refusal.status == StatusCode::BAD_REQUEST {
            refusal.status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        refusal
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Refusal {
        Refusal::from(&status)
    }
}

impl From<&ItemError> for Refusal {
    fn from(error: &ItemError) -> Refusal {
        let code = Code::from_i32(error.code);
        Refusal::of(
            code,
            error.reason(),
            error.message.clone(),
            error.retry_after_ms,
        )
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, ms) = (self.status, self.retry_after_ms);
        let mut response = answer::json(status, &Failed { error: self });
        if ms > 0 {
            let seconds = ms.div_ceil(1_000);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Returns HTTP's status for a code, and the code's name.
fn named(code: Code) -> (StatusCode, &'static str) {
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
