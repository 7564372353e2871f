//! The web page at `/`, and the data that it requests.
//!
//! ```text
//! mod           routes; page.html, page.css and page.js, unchanged
//! cluster_view  the cluster: the store, then every process, each within a timeout; once a second
//!               for all viewers together
//! cluster_json  the cluster as JSON, as in `seqsvr status --json`
//! recent_load   the load of the last five minutes, for the chart
//! lookup        slots and their owners; the slot and owner of a uid or key
//! ```
//!
//! Invariants: the page only reads. A process that does not answer is shown with its reason, and
//! never hides the others. The load of the cluster does not grow with the number of viewers.

mod cluster_json;
mod cluster_view;
mod lookup;
mod recent_load;

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use seqsvr_net::{LocalSequence, Transport};
use seqsvr_proto::v1::admin_server::Admin;

use super::error::HttpError;
use super::query;
use super::response::typed_response;
use super::routes::Routes;
pub use cluster_json::{NodeStatuses, cluster_status_json};
use cluster_view::ClusterView;

/// Content security policy of the page: only files of this server, and nothing inline.
const CONTENT_SECURITY_POLICY_VALUE: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the routes of the page and its data: `/`, `/v1/cluster`, `/v1/slots` and `/v1/route`, by
/// calls of one AllocSvr, and by its network to all other processes. Must be called inside a tokio
/// runtime, which sends these calls.
pub fn dashboard_routes<S: LocalSequence, A: Admin>(
    sequence: S,
    admin: A,
    transport: Arc<dyn Transport>,
) -> Routes {
    let asset = |content_type, text| get(move || async move { page_response(content_type, text) });
    let access = sequence.access().clone();
    let view = Arc::new(ClusterView::new(sequence, admin, transport));
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
        .route("/v1/cluster", get(serve_cluster::<S, A>))
        .route("/v1/slots", get(serve_slots::<S, A>))
        .route("/v1/route", get(serve_route::<S, A>))
        .with_state(view);
    Routes::new(router, access)
}

async fn serve_cluster<S: LocalSequence, A: Admin>(
    State(view): State<Arc<ClusterView<S, A>>>,
) -> Response {
    typed_response(
        StatusCode::OK,
        "application/json",
        view.cluster_json().await,
    )
}

async fn serve_slots<S: LocalSequence, A: Admin>(
    State(view): State<Arc<ClusterView<S, A>>>,
) -> Result<Response, HttpError> {
    let table = view.routing_table().await?;
    Ok(typed_response(
        StatusCode::OK,
        "application/json",
        lookup::slots_json(&table).to_string(),
    ))
}

async fn serve_route<S: LocalSequence, A: Admin>(
    State(view): State<Arc<ClusterView<S, A>>>,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let lookup = query::parse_fields(query.as_deref().unwrap_or_default())
        .map_err(|error| HttpError::invalid(error.to_string()))?;
    let table = view.routing_table().await?;
    let found = lookup::route_json(&table, &lookup)?;
    Ok(typed_response(
        StatusCode::OK,
        "application/json",
        found.to_string(),
    ))
}

fn page_response(content_type: &'static str, body: &'static str) -> Response {
    let mut response = typed_response(StatusCode::OK, content_type, body);
    let policy = HeaderValue::from_static(CONTENT_SECURITY_POLICY_VALUE);
    response
        .headers_mut()
        .insert(CONTENT_SECURITY_POLICY, policy);
    response
}
