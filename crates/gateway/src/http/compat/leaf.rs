//! Leaf's path of segments: `/api/segment/get/{key}` answers a number as text
//! (docs/guide/http.md has the forms).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode, Uri};
use axum::response::Response;
use axum::routing::any;
use percent_encoding::percent_decode_str;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use seqsvr_proto::v1::sequence_server::Sequence;
use tonic::{Code, Status};

use super::spring_error::{self, exception_response, not_found_response};
use super::tag_request::{TagRequest, TokenPlace, reject_head, with_error_header};
use crate::http::error::name_scheme_if_unauthenticated;
use crate::http::response::typed_response;

const SEGMENT_PATH: &str = "/api/segment/get/";
const LEAF_EXCEPTION: &str = "com.sankuai.inf.leaf.server.exception.LeafServerException";

/// Leaf's error id while its keys are not loaded yet.
const NOT_READY_ID: i64 = -1;
/// Leaf's error id for a key that does not exist.
const NO_SUCH_KEY_ID: i64 = -2;
/// Leaf's error id if no segment is left, and for all other errors.
const NO_SEGMENT_ID: i64 = -3;

pub(super) fn leaf_routes<S: Sequence>(sequence: Arc<S>) -> Router {
    let handler = || any(get_number::<S>).head(reject_head);
    Router::new()
        .route("/api/segment/get/{key}", handler())
        .route("/api/segment/get/{key}/", handler())
        .route(SEGMENT_PATH, any(reject_empty_key))
        .with_state(sequence)
}

async fn reject_empty_key(uri: Uri) -> Response {
    not_found_response(uri.path())
}

async fn get_number<S: Sequence>(
    State(sequence): State<Arc<S>>,
    request: Request<Body>,
) -> Response {
    let path = request.uri().path().to_owned();
    let taken = match TagRequest::read(request, TokenPlace::Head).await {
        Ok(request) => {
            let key = path.strip_prefix(SEGMENT_PATH).unwrap_or(&path);
            let key = percent_decode_str(key.trim_end_matches('/')).decode_utf8_lossy();
            request.take_numbers(&*sequence, &key, 1).await
        }
        Err(error) => Err(error.into()),
    };
    match taken {
        Ok(answer) => typed_response(
            StatusCode::OK,
            spring_error::CONTENT_TYPE_TEXT,
            answer.last.to_string(),
        ),
        Err(status) => error_response(&status, &path),
    }
}

fn error_response(status: &Status, path: &str) -> Response {
    let message = format!("Result{{id={}, status=EXCEPTION}}", leaf_error_id(status));
    let status_code = match status.code() {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = exception_response(status_code, LEAF_EXCEPTION, &message, path);
    name_scheme_if_unauthenticated(&mut response);
    with_error_header(response, status)
}

fn leaf_error_id(status: &Status) -> i64 {
    match RpcError::from_status(status).reason() {
        Reason::NotInitialized => NOT_READY_ID,
        Reason::NamespaceNotFound => NO_SUCH_KEY_ID,
        _ => NO_SEGMENT_ID,
    }
}
