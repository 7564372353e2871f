//! The form of Tinyid's answers, and its errors.

use axum::http::StatusCode;
use axum::response::Response;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use serde::Serialize;
use tonic::Status;

use crate::http::answer::response;
use crate::http::memory::Held;
use crate::http::refusal::Refusal;
use crate::http::spring::{self, thrown};
use crate::http::tag::with_why;

/// Codes of an answer.
pub(super) const OK: i32 = 200;
const TOKEN_ERR: (i32, &str) = (5, "token is error");
const SYS_ERR: i32 = 6;

#[derive(Serialize)]
pub(super) struct Answer<T> {
    pub(super) data: Option<T>,
    pub(super) code: i32,
    pub(super) message: String,
}

/// The reason why a request gets no numbers.
pub(super) enum Failed {
    /// `batchSize` is not a number.
    Mistyped {
        text: String,
        path: String,
    },
    Token,
    Status(Status),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::Status(Status::unavailable(refusal.message))
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        Failed::Status(status)
    }
}

/// Returns the answer, which keeps the memory that it holds.
pub(super) fn sent(
    kind: &'static str,
    body: Vec<u8>,
    held: Option<Held>,
) -> Result<Response, Failed> {
    let body = match held {
        Some(held) => held.answer(body)?,
        None => body.into(),
    };
    Ok(response(StatusCode::OK, kind, body))
}

/// Returns an answer as text; a failure has an empty text.
pub(super) fn simple(taken: Result<Response, Failed>) -> Response {
    let empty = || response(StatusCode::OK, spring::TEXT, "");
    match taken {
        Ok(answer) => answer,
        Err(Failed::Token) => empty(),
        Err(Failed::Status(status)) => with_why(empty(), &status),
        Err(failed) => failed.answer(|_| String::new()),
    }
}

pub(super) fn no_such(biz_type: &str) -> Status {
    Fault::new(
        Reason::NoSuchNamespace,
        format!("there is no namespace {biz_type:?}"),
    )
    .into()
}

pub(super) fn message(status: &Status, biz_type: &str) -> String {
    match Fault::from_status(status).reason() {
        Reason::NoSuchNamespace => format!("can not find biztype:{biz_type}"),
        _ => status.message().to_owned(),
    }
}

pub(super) fn body(answer: &Answer<impl Serialize>) -> Vec<u8> {
    // Writing to a Vec cannot fail, and neither can these fields.
    serde_json::to_vec(answer).unwrap_or_default()
}

impl Failed {
    pub(super) fn answer(self, message: impl FnOnce(&Status) -> String) -> Response {
        let (code, message) = match self {
            Failed::Mistyped { text, path } => {
                let exception =
                    "org.springframework.web.method.annotation.MethodArgumentTypeMismatchException";
                let message = format!(
                    "Failed to convert value of type 'java.lang.String' to required type 'java.lang.Integer'; nested exception is java.lang.NumberFormatException: For input string: \"{text}\""
                );
                return thrown(StatusCode::BAD_REQUEST, exception, &message, &path);
            }
            Failed::Token => (TOKEN_ERR.0, TOKEN_ERR.1.to_owned()),
            Failed::Status(status) => (SYS_ERR, message(&status)),
        };
        let body = body(&Answer::<()> {
            data: None,
            code,
            message,
        });
        response(StatusCode::OK, spring::JSON, body)
    }
}
