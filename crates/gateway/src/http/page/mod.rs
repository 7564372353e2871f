//! The web page at `/`, and the data that it requests.
//!
//! ```text
//! mod      routes; page.html, page.css and page.js, as they are
//! gather   the cluster: the store, then every process, each within its time; once a second
//!          for all viewers
//! shape    that as JSON, as `seqsvr status --json` has it
//! place    slots and their owners; where a uid or key lives
//! ```
//!
//! Invariants: it only reads. A process that does not answer is shown with its reason, and never
//! hides the rest. What the page costs the cluster does not grow with the number of its viewers.

mod gather;
mod place;
mod shape;

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use seqsvr_proto::v1::admin_server::Admin;
use seqsvr_proto::v1::sequence_server::Sequence;

use super::paths::Paths;
use super::query;
use super::refusal::Refusal;
use gather::Gather;
pub use shape::{Nodes, status};

/// Policy that allows only what this server sends, and nothing inside the page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns `GET /` and its parts, `/v1/cluster`, `/v1/slots` and `/v1/route`, by the calls of one
/// AllocSvr. Must be called inside a tokio runtime, which sends the page's requests.
pub fn page<S: Sequence, A: Admin>(sequence: S, admin: A) -> Paths {
    let asset = |kind, text| get(move || async move { sent(kind, text) });
    let gather = Arc::new(Gather::new(sequence, admin));
    let router = Router::new()
        .route(
            "/",
            asset("text/html; charset=utf-8", include_str!("page.html")),
        )
        .route(
            "/page.css",
            asset("text/css; charset=utf-8", include_str!("page.css")),
        )
        .route(
            "/page.js",
            asset("text/javascript; charset=utf-8", include_str!("page.js")),
        )
        .route("/v1/cluster", get(cluster::<S, A>))
        .route("/v1/slots", get(slots::<S, A>))
        .route("/v1/route", get(route::<S, A>))
        .with_state(gather);
    router.into()
}

async fn cluster<S: Sequence, A: Admin>(State(gather): State<Arc<Gather<S, A>>>) -> Response {
    sent("application/json", gather.cluster().await)
}

async fn slots<S: Sequence, A: Admin>(
    State(gather): State<Arc<Gather<S, A>>>,
) -> Result<Response, Refusal> {
    let table = gather.routes().await?;
    Ok(sent("application/json", place::slots(&table).to_string()))
}

async fn route<S: Sequence, A: Admin>(
    State(gather): State<Arc<Gather<S, A>>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let asked = query::read(query.as_deref().unwrap_or_default())
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    let table = gather.routes().await?;
    let found = place::route(&table, &asked)?;
    Ok(sent("application/json", found.to_string()))
}

fn sent(kind: &'static str, body: impl IntoResponse) -> Response {
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, body).into_response()
}
