//! Requests of Leaf and Tinyid for the numbers of a business tag: a tag is a namespace, and its
//! numbers are those of uid 0 in it.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Request, StatusCode};
use axum::response::Response;
use seqsvr_access::{Caller, GrantTarget, NamespaceRight};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{NextRequest, NextResponse, Reason, next_request};
use tonic::Status;

use crate::http::error::HttpError;
use crate::http::identity::{Refusal, TagJudge};
use crate::http::{body, query};

/// Uid whose numbers are those of a tag.
const TAG_UID: u64 = 0;
/// Maximum bytes of a form; a larger one is rejected.
const FORM_BYTES_MAX: usize = 16 << 10;
/// Header with the error text, which the forms of Leaf and Tinyid cannot hold.
const ERROR_HEADER: HeaderName = HeaderName::from_static("x-seqsvr-error");

/// A request for a tag, with its fields from query and form, and its caller.
pub(super) struct TagRequest {
    pub(super) parts: Parts,
    form: String,
    caller: Caller,
}

/// Where a request may have its token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenPlace {
    /// In its head only.
    Head,
    /// In its head, or in a field of its query or form.
    HeadOrField,
}

impl TagRequest {
    /// Reads a request and its form, and judges who sends it.
    ///
    /// # Errors
    /// The form cannot be read. With status 401: the request shows nothing that names a caller.
    pub(super) async fn read(
        request: Request<Body>,
        place: TokenPlace,
    ) -> Result<TagRequest, HttpError> {
        match TagRequest::read_and_judge(request, place).await {
            Ok(request) => Ok(request),
            Err(refusal) => Err(refusal.into_error().await),
        }
    }

    async fn read_and_judge(
        request: Request<Body>,
        place: TokenPlace,
    ) -> Result<TagRequest, Refusal> {
        let (mut parts, body) = request.into_parts();
        let has_form = place == TokenPlace::HeadOrField && body::is_form(&parts);
        let form = match has_form {
            true => body::read_body(&parts.headers, body, FORM_BYTES_MAX, None).await?,
            false => bytes::Bytes::new(),
        };
        let form = String::from_utf8_lossy(&form).into_owned();
        let judge = parts.extensions.remove::<TagJudge>().ok_or_else(|| {
            let text = "the caller of this request is not known";
            HttpError::from(RpcError::new(Reason::Unauthenticated, text))
        })?;
        let fields = match place {
            TokenPlace::Head => [""; 2],
            TokenPlace::HeadOrField => [parts.uri.query().unwrap_or_default(), &form],
        };
        let caller = judge.judge(&mut parts.headers, fields)?;
        parts.extensions.insert(caller.clone());
        Ok(TagRequest {
            parts,
            form,
            caller,
        })
    }

    /// Checks that its caller may take numbers of a tag. To be called before the tag is looked up:
    /// the answer must not say whether it exists.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn check_right(&self, tag: &str) -> Result<(), Status> {
        let target = GrantTarget::Namespace(tag);
        let checked = self.caller.check_right_on(NamespaceRight::Next, target);
        checked.map_err(|why| RpcError::new(Reason::PermissionDenied, why.to_string()).into())
    }

    /// Returns the first field of this name that is not empty.
    pub(super) fn find_field(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query().unwrap_or("");
        let values = [query, &self.form].into_iter();
        let mut values = values.flat_map(|fields| query::find_values(fields, name));
        let value = values.find(|value| !value.is_empty())?;
        Some(value.into_owned())
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
