//! Business tags, as Leaf and Tinyid have them: a tag is a namespace, and its numbers are those of
//! uid 0 in it.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use seqsvr_core::namespace::Namespace;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{NextRequest, NextResponse, next_request};
use tonic::Status;

use super::refusal::Refusal;
use super::routes::Routes;
use super::{heard, query};

/// The uid that has the numbers of a tag.
const UID: u64 = 0;
/// Largest form, bytes.
const FORM_MAX: usize = 16 << 10;
/// Header for what the forms of these errors cannot hold.
const WHY: HeaderName = HeaderName::from_static("x-seqsvr-error");

/// A request and its fields, from query and form.
pub(super) struct Asked {
    pub(super) parts: Parts,
    form: String,
}

impl Asked {
    /// # Errors
    /// The form cannot be read.
    pub(super) async fn hear(request: Request<Body>) -> Result<Asked, Refusal> {
        let (parts, body) = request.into_parts();
        let form = match parts.method == Method::POST && heard::is_form(&parts) {
            true => heard::body(&parts.headers, body, FORM_MAX, None).await?,
            false => bytes::Bytes::new(),
        };
        let form = String::from_utf8_lossy(&form).into_owned();
        Ok(Asked { parts, form })
    }

    /// Returns the first field of this name that is not empty.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query().unwrap_or("");
        let values = [query, &self.form]
            .into_iter()
            .filter_map(|fields| query::value(fields, name));
        values
            .map(|value| value.into_owned())
            .find(|value| !value.is_empty())
    }

    /// Takes numbers of a tag.
    ///
    /// # Errors
    /// The service returns an error.
    pub(super) async fn take(
        &self,
        sequence: &impl Sequence,
        tag: &str,
        count: u32,
    ) -> Result<NextResponse, Status> {
        let message = NextRequest {
            namespace: tag.to_owned(),
            key_kind: Some(next_request::KeyKind::Uid(UID)),
            count: Some(count),
            ..NextRequest::default()
        };
        let answer = sequence.next(heard::call(&self.parts, message)).await?;
        Ok(answer.into_inner())
    }

    /// Returns the namespace of a tag; None: there is none.
    ///
    /// # Errors
    /// The service returns an error.
    pub(super) async fn namespace(
        &self,
        sequence: &impl Sequence,
        routes: &Routes,
        tag: &str,
    ) -> Result<Option<Namespace>, Status> {
        let request = |message| heard::call(&self.parts, message);
        let table = routes.newest(sequence, request).await?;
        Ok(table.namespace(tag).cloned())
    }
}

/// Rejects HEAD, which takes no number: no caller would see it.
pub(super) async fn no_head() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

/// Returns the answer with a header for what the answer cannot hold.
pub(super) fn with_why(mut response: Response, status: &Status) -> Response {
    if let Ok(why) = HeaderValue::from_str(
        &status
            .message()
            .escape_default()
            .to_string()
            .replace("\\\"", "\""),
    ) {
        response.headers_mut().insert(WHY, why);
    }
    response
}
