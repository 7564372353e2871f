//! Requests of Leaf and Tinyid for the numbers of a business tag: a tag is a namespace, and its
//! numbers are those of uid 0 in it.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{NextRequest, NextResponse, next_request};
use tonic::Status;

use crate::http::error::HttpError;
use crate::http::{body, query};

/// Uid whose numbers are those of a tag.
const TAG_UID: u64 = 0;
/// Maximum bytes of a form; a larger one is rejected.
const FORM_BYTES_MAX: usize = 16 << 10;
/// Header with the error text, which the forms of Leaf and Tinyid cannot hold.
const ERROR_HEADER: HeaderName = HeaderName::from_static("x-seqsvr-error");

/// A request for a tag, with its fields from query and form.
pub(super) struct TagRequest {
    pub(super) parts: Parts,
    form: String,
}

impl TagRequest {
    /// Reads a request and its form.
    ///
    /// # Errors
    /// The form cannot be read.
    pub(super) async fn read(request: Request<Body>) -> Result<TagRequest, HttpError> {
        let (parts, body) = request.into_parts();
        let form = match parts.method == Method::POST && body::is_form(&parts) {
            true => body::read_body(&parts.headers, body, FORM_BYTES_MAX, None).await?,
            false => bytes::Bytes::new(),
        };
        let form = String::from_utf8_lossy(&form).into_owned();
        Ok(TagRequest { parts, form })
    }

    /// Returns the first field of this name that is not empty.
    pub(super) fn find_field(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query().unwrap_or("");
        let values = [query, &self.form]
            .into_iter()
            .filter_map(|fields| query::find_value(fields, name));
        values
            .map(|value| value.into_owned())
            .find(|value| !value.is_empty())
    }

    /// Takes numbers of a tag.
    ///
    /// # Errors
    /// The service returns an error.
    pub(super) async fn take_numbers(
        &self,
        sequence: &impl Sequence,
        tag: &str,
        count: u32,
    ) -> Result<NextResponse, Status> {
        let message = NextRequest {
            namespace: tag.to_owned(),
            key_kind: Some(next_request::KeyKind::Uid(TAG_UID)),
            count: Some(count),
            ..NextRequest::default()
        };
        let answer = sequence
            .next(body::service_request(&self.parts, message))
            .await?;
        Ok(answer.into_inner())
    }
}

/// Rejects HEAD: it would take a number that no client sees.
pub(super) async fn reject_head() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

/// Adds a header with the error text to a response.
pub(super) fn with_error_header(mut response: Response, status: &Status) -> Response {
    if let Ok(text) = HeaderValue::from_str(
        &status
            .message()
            .escape_default()
            .to_string()
            .replace("\\\"", "\""),
    ) {
        response.headers_mut().insert(ERROR_HEADER, text);
    }
    response
}
