//! Leaf's path of segments: `/api/segment/get/{key}` answers a number as text (docs/http.md has the
//! forms).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use percent_encoding::percent_decode_str;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::Reason;
use seqsvr_proto::v1::sequence_server::Sequence;
use tonic::Status;

use super::answer::response;
use super::spring::{self, not_found, thrown};
use super::tag::{Asked, no_head, with_why};

const PATH: &str = "/api/segment/get/";
const EXCEPTION: &str = "com.sankuai.inf.leaf.server.exception.LeafServerException";

/// Leaf's numbers of an error: its keys are not loaded yet; it has no such key; it has no segment
/// left.
const NOT_READY: i64 = -1;
const NO_SUCH_KEY: i64 = -2;
const NO_SEGMENT: i64 = -3;

pub(super) fn leaf<S: Sequence>(sequence: Arc<S>) -> Router {
    let segment = || any(segment::<S>).head(no_head);
    Router::new()
        .route("/api/segment/get/{key}", segment())
        .route("/api/segment/get/{key}/", segment())
        .route(PATH, any(no_key))
        .with_state(sequence)
}

async fn no_key(uri: Uri) -> Response {
    not_found(uri.path())
}

async fn segment<S: Sequence>(State(sequence): State<Arc<S>>, request: Request<Body>) -> Response {
    let asked = match Asked::hear(request).await {
        Ok(asked) => asked,
        Err(refusal) => return refusal.into_response(),
    };
    let path = asked.parts.uri.path();
    let key = path.strip_prefix(PATH).unwrap_or(path);
    let key = key.trim_end_matches('/');
    let key = percent_decode_str(key).decode_utf8_lossy();
    match asked.take(&*sequence, &key, 1).await {
        Ok(answer) => response(StatusCode::OK, spring::TEXT, answer.last.to_string()),
        Err(status) => {
            let message = format!("Result{{id={}, status=EXCEPTION}}", id(&status));
            let failed = StatusCode::INTERNAL_SERVER_ERROR;
            with_why(thrown(failed, EXCEPTION, &message, path), &status)
        }
    }
}

fn id(status: &Status) -> i64 {
    match Fault::from_status(status).reason() {
        Reason::NotInitialised => NOT_READY,
        Reason::NoSuchNamespace => NO_SUCH_KEY,
        _ => NO_SEGMENT,
    }
}
