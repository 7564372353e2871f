//! Responses and errors in the form of Tinyid.

use axum::http::StatusCode;
use axum::response::Response;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::printable::printable;
use seqsvr_proto::v1::Reason;
use serde::Serialize;
use tonic::{Code, Status};

use crate::http::compat::spring_error::{self, exception_response};
use crate::http::compat::tag_request::with_error_header;
use crate::http::error::HttpError;
use crate::http::memory_limit::MemoryReservation;
use crate::http::response::typed_response;

/// Code of a response with numbers.
const CODE_OK: i32 = 200;
/// Code and message of a response to a token that is not for the tag.
const TOKEN_ERROR: (i32, &str) = (5, "token is error");
/// Code of a response with any other error.
const CODE_SYSTEM_ERROR: i32 = 6;

/// The body of a response.
#[derive(Serialize)]
struct TinyidResponse<T> {
    data: Option<T>,
    code: i32,
    message: String,
}

/// The error of a request that gets no numbers.
pub(super) enum TinyidError {
    /// `batchSize` is not a number.
    InvalidBatchSize {
        text: String,
        path: String,
    },
    /// `bizType` is missing.
    MissingField,
    /// The request has no identity, or one without the right on the tag.
    Denied(Status),
    Status(Status),
}

impl From<HttpError> for TinyidError {
    fn from(error: HttpError) -> TinyidError {
        Status::from(error).into()
    }
}

impl From<Status> for TinyidError {
    fn from(status: Status) -> TinyidError {
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => TinyidError::Denied(status),
            _ => TinyidError::Status(status),
        }
    }
}

/// Returns a response, whose body keeps its reservation of memory.
pub(super) fn body_response(
    content_type: &'static str,
    body: Vec<u8>,
    reservation: Option<MemoryReservation>,
) -> Result<Response, TinyidError> {
    let body = match reservation {
        Some(reservation) => reservation.attach_to_answer(body)?,
        None => body.into(),
    };
    Ok(typed_response(StatusCode::OK, content_type, body))
}

/// Returns a response with data as JSON, whose body keeps its reservation of memory.
pub(super) fn data_response(
    data: impl Serialize,
    reservation: Option<MemoryReservation>,
) -> Result<Response, TinyidError> {
    let body = to_json_bytes(&TinyidResponse {
        data: Some(data),
        code: CODE_OK,
        message: String::new(),
    });
    body_response(spring_error::CONTENT_TYPE_JSON, body, reservation)
}

/// Returns a response of text; the text of an error is empty.
pub(super) fn simple_response(result: Result<Response, TinyidError>) -> Response {
    let empty = || typed_response(StatusCode::OK, spring_error::CONTENT_TYPE_TEXT, "");
    match result {
        Ok(answer) => answer,
        Err(TinyidError::MissingField) => empty(),
        Err(TinyidError::Denied(status) | TinyidError::Status(status)) => {
            with_error_header(empty(), &status)
        }
        Err(error) => error.into_response(|_| String::new()),
    }
}

/// Returns the error for a tag without a namespace.
pub(super) fn namespace_not_found(biz_type: &str) -> Status {
    RpcError::new(
        Reason::NamespaceNotFound,
        format!("there is no namespace {biz_type:?}"),
    )
    .into()
}

/// Returns Tinyid's text for an error of the service.
pub(super) fn error_message(status: &Status, biz_type: &str) -> String {
    match RpcError::from_status(status).reason() {
        Reason::NamespaceNotFound => format!("can not find biztype:{biz_type}"),
        _ => status.message().to_owned(),
    }
}

/// Encodes a response as JSON.
fn to_json_bytes(answer: &TinyidResponse<impl Serialize>) -> Vec<u8> {
    // Writing to a Vec cannot fail, and neither can these fields.
    serde_json::to_vec(answer).unwrap_or_default()
}

impl TinyidError {
    /// Returns the response of JSON; `message` gives the text for an error of the service.
    pub(super) fn into_response(self, message: impl FnOnce(&Status) -> String) -> Response {
        let mut denied = None;
        let (code, message) = match self {
            TinyidError::InvalidBatchSize { text, path } => {
                let exception =
                    "org.springframework.web.method.annotation.MethodArgumentTypeMismatchException";
                let message = format!(
                    "Failed to convert value of type 'java.lang.String' to required type 'java.lang.Integer'; nested exception is java.lang.NumberFormatException: For input string: \"{text}\""
                );
                return exception_response(StatusCode::BAD_REQUEST, exception, &message, &path);
            }
            TinyidError::MissingField => (TOKEN_ERROR.0, TOKEN_ERROR.1.to_owned()),
            TinyidError::Denied(status) => {
                denied = Some(status);
                (TOKEN_ERROR.0, TOKEN_ERROR.1.to_owned())
            }
            TinyidError::Status(status) => (CODE_SYSTEM_ERROR, message(&status)),
        };
        let body = to_json_bytes(&TinyidResponse::<()> {
            data: None,
            code,
            message: printable(&message).into_owned(),
        });
        let response = typed_response(StatusCode::OK, spring_error::CONTENT_TYPE_JSON, body);
        match denied {
            Some(status) => with_error_header(response, &status),
            None => response,
        }
    }
}
