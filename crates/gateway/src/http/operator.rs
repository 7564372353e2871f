//! What operators and their tools ask of a server: `/metrics`, `/healthz`, `/readyz`.
//!
//! Invariant: one scrape at a time is under way, on a thread where nobody waits for it, so that who scrapes too
//! often takes no more of a server than one thread.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use seqsvr_metrics::{Check, Registry, Watched, text};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::answer::response;
use super::exposition::Format;
use super::paths::Paths;

const TEXT: &str = "text/plain; charset=utf-8";
/// How long a scrape waits for others.
const PATIENCE: Duration = Duration::from_secs(2);

/// The paths that tell of a server.
pub fn operator<W: Watched>(server: W) -> Paths {
    let mut registry = Registry::default();
    server.register(&mut registry);
    let scraped = Scraped {
        registry: Arc::new(registry),
        turn: Arc::new(Semaphore::new(1)),
    };
    let metrics = Router::new()
        .route("/metrics", get(metrics))
        .with_state(scraped);
    let told = Router::new()
        .route("/healthz", get(healthz::<W>))
        .route("/readyz", get(readyz::<W>))
        .with_state(Arc::new(server));
    told.merge(metrics).into()
}

#[derive(Clone)]
struct Scraped {
    registry: Arc<Registry>,
    turn: Arc<Semaphore>,
}

async fn metrics(State(scraped): State<Scraped>, headers: HeaderMap) -> Response {
    let Scraped { registry, turn } = scraped;
    let Ok(Ok(turn)) = timeout(PATIENCE, turn.acquire_owned()).await else {
        let text = "others are scraping this server; come again, and less often\n";
        return response(StatusCode::SERVICE_UNAVAILABLE, TEXT, text);
    };
    let format = Format::asked(&headers);
    let encoded = spawn_blocking(move || {
        let _turn = turn;
        let mut out = String::new();
        text::encode(&mut out, &registry).map(|()| format.of(out))
    });
    match encoded.await {
        Ok(Ok(text)) => response(StatusCode::OK, format.content_type(), text),
        // Only a bug does that.
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether the process is of use at all; if not, it must be started again.
async fn healthz<W: Watched>(State(server): State<Arc<W>>) -> Response {
    answer(&[failure(&*server)])
}

/// Whether it serves now.
async fn readyz<W: Watched>(State(server): State<Arc<W>>) -> Response {
    let mut checks = vec![failure(&*server)];
    checks.extend(server.checks());
    answer(&checks)
}

fn failure(server: &impl Watched) -> Check {
    let failed = server.failed_with();
    Check {
        name: "process",
        fault: failed.map(|why| format!("{why}; start it again once that is mended")),
    }
}

/// A line for each.
fn answer(checks: &[Check]) -> Response {
    let line = |check: &Check| match &check.fault {
        None => format!("ok: {}\n", check.name),
        Some(fault) => format!("failed: {}: {fault}\n", check.name),
    };
    let status = match checks.iter().all(|check| check.fault.is_none()) {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    response(status, TEXT, checks.iter().map(line).collect::<String>())
}
