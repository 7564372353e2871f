//! The paths of a server for operators and their tools: `/metrics`, `/healthz`, `/readyz`.
//!
//! Invariants:
//! - A door that has threads of its own does not report a server as healthy while that server's own
//!   threads are stopped.
//! - One scrape at a time runs, on a thread for which nothing else waits. A caller that scrapes too
//!   often takes no more of a server than one thread.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use seqsvr_metrics::{Check, Registry, Watched, text};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::answer::response;
use super::exposition::Format;
use super::paths::Paths;

const TEXT: &str = "text/plain; charset=utf-8";
/// How long a scrape waits for others.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the server's threads may leave a task undone that takes no time.
const STILL_MAX: Duration = Duration::from_secs(5);

/// Returns the paths that report on a server, which runs in the current runtime.
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
        .with_state(Arc::new(Server {
            watched: server,
            runtime: Handle::current(),
        }));
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
        // Only a bug causes that.
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A server, and where it runs.
struct Server<W> {
    watched: W,
    runtime: Handle,
}

/// Answers whether the process works at all; if not, it must be restarted.
async fn healthz<W: Watched>(State(server): State<Arc<Server<W>>>) -> Response {
    answer(&[server.process().await])
}

/// Answers whether the server serves now.
async fn readyz<W: Watched>(State(server): State<Arc<Server<W>>>) -> Response {
    let mut checks = vec![server.process().await];
    checks.extend(server.watched.checks());
    answer(&checks)
}

impl<W: Watched> Server<W> {
    async fn process(&self) -> Check {
        let fault = match self.watched.failed_with() {
            Some(why) => Some(format!("{why}; start it again once that is mended")),
            None => {
                let turn = timeout(STILL_MAX, self.runtime.spawn(async {}));
                turn.await.is_err().then(|| {
                    format!(
                        "its threads have done nothing for {STILL_MAX:?}; see what they wait for, as `gdb -p PID -batch -ex 'thread apply all bt'` tells, and start it again"
                    )
                })
            }
        };
        Check {
            name: "process",
            fault,
        }
    }
}

/// Writes one line for each check.
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Well;

    impl Watched for Well {
        fn register(&self, _: &mut Registry) {}

        fn failed_with(&self) -> Option<String> {
            None
        }

        fn checks(&self) -> Vec<Check> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn a_server_that_stands_still_is_not_well() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).build().unwrap();
        let server = Server {
            watched: Well,
            runtime: runtime.handle().clone(),
        };
        assert_eq!(server.process().await.fault, None);
        let (go_on, stand_still) = mpsc::channel::<()>();
        let stands_still = runtime.spawn(async move { stand_still.recv() });
        tokio::time::pause();
        let fault = server.process().await.fault.unwrap();
        tokio::time::resume();
        assert!(
            fault.starts_with("its threads have done nothing for 5s"),
            "{fault}"
        );
        drop(go_on);
        assert!(stands_still.await.unwrap().is_err());
        assert_eq!(server.process().await.fault, None);
        runtime.shutdown_background();
    }
}
