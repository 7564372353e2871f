//! The paths of a server for operators and their tools: `/metrics`, `/healthz`, `/readyz`.
//!
//! Invariants:
//! - An endpoint that has threads of its own does not report a server as healthy while that
//!   server's own threads are stopped.
//! - One scrape at a time runs, on a thread for which nothing else waits. A client that scrapes too
//!   often uses at most one thread of a server.

mod text_format;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use seqsvr_access::{Access, Caller, ClusterRight};
use seqsvr_metrics::{HealthCheck, Registry, ServerProbe, text};
use seqsvr_proto::printable::printable;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::error::OPERATOR_PATHS;
use super::response::typed_response;
use super::routes::Routes;
use text_format::MetricsFormat;

const CONTENT_TYPE_TEXT: &str = "text/plain; charset=utf-8";
/// Maximum wait of a scrape for others; then it is rejected.
const SCRAPE_PERMIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum time for the server's threads to run a task that does nothing; above it the server is
/// not healthy.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the routes that report on a server, which runs in the current runtime. `access` judges
/// their callers.
pub fn operator_routes<W: ServerProbe>(server: W, access: Access) -> Routes {
    let mut registry = Registry::default();
    server.register_metrics(&mut registry);
    let scrape_state = ScrapeState {
        registry: Arc::new(registry),
        permit: Arc::new(Semaphore::new(1)),
    };
    let [metrics, healthz, readyz] = OPERATOR_PATHS;
    let scrapes = Router::new()
        .route(metrics, get(serve_metrics))
        .with_state(scrape_state);
    let probes = Router::new()
        .route(healthz, get(serve_healthz::<W>))
        .route(readyz, get(serve_readyz::<W>))
        .with_state(Arc::new(ObservedServer {
            watched: server,
            runtime: Handle::current(),
        }));
    Routes::new(probes.merge(scrapes), access)
}

/// The metrics of a server, and the permit for a scrape.
#[derive(Clone)]
struct ScrapeState {
    registry: Arc<Registry>,
    permit: Arc<Semaphore>,
}

async fn serve_metrics(State(scrape_state): State<ScrapeState>, headers: HeaderMap) -> Response {
    let ScrapeState { registry, permit } = scrape_state;
    let Ok(Ok(permit)) = timeout(SCRAPE_PERMIT_TIMEOUT, permit.acquire_owned()).await else {
        let text = "too many scrapes at a time; retry less often\n";
        return typed_response(StatusCode::SERVICE_UNAVAILABLE, CONTENT_TYPE_TEXT, text);
    };
    let format = MetricsFormat::accepted_by(&headers);
    let encoded = spawn_blocking(move || {
        let _permit = permit;
        let mut out = String::new();
        text::encode(&mut out, &registry).map(|()| format.convert(out))
    });
    match encoded.await {
        Ok(Ok(text)) => typed_response(StatusCode::OK, format.content_type(), text),
        // Only a bug causes an error here.
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A server, and the runtime in which it runs.
struct ObservedServer<W> {
    watched: W,
    runtime: Handle,
}

/// Answers whether the process works; if not, it must be restarted.
async fn serve_healthz<W: ServerProbe>(
    State(server): State<Arc<ObservedServer<W>>>,
    caller: Option<Extension<Caller>>,
) -> Response {
    checks_response(&[server.check_process().await], caller)
}

/// Answers whether the server serves now.
async fn serve_readyz<W: ServerProbe>(
    State(server): State<Arc<ObservedServer<W>>>,
    caller: Option<Extension<Caller>>,
) -> Response {
    let mut checks = vec![server.check_process().await];
    checks.extend(server.watched.health_checks());
    checks_response(&checks, caller)
}

impl<W: ServerProbe> ObservedServer<W> {
    async fn check_process(&self) -> HealthCheck {
        let fault = match self.watched.permanent_failure() {
            Some(error) => Some(format!("{error}; fix this, then restart the server")),
            None => {
                let empty_task = timeout(STALL_TIMEOUT, self.runtime.spawn(async {}));
                empty_task.await.is_err().then(|| {
                    format!(
                        "the threads of the server have done nothing for {STALL_TIMEOUT:?}; find what they wait for with `gdb -p PID -batch -ex 'thread apply all bt'`, and restart the server"
                    )
                })
            }
        };
        HealthCheck {
            name: "process",
            failure: fault,
        }
    }
}

/// Writes one line for each check; for a caller without the right `status` one word for all, since
/// the lines name servers and their faults.
fn checks_response(checks: &[HealthCheck], caller: Option<Extension<Caller>>) -> Response {
    let line = |check: &HealthCheck| match &check.failure {
        None => format!("ok: {}\n", check.name),
        // A fault may have text that another server sent.
        Some(fault) => format!("failed: {}: {}\n", check.name, printable(fault)),
    };
    let (status, word) = match checks.iter().all(|check| check.failure.is_none()) {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed\n"),
    };
    let text = match caller.is_some_and(|caller| caller.has_right(ClusterRight::Status)) {
        true => checks.iter().map(line).collect(),
        false => word.to_owned(),
    };
    typed_response(status, CONTENT_TYPE_TEXT, text)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use axum::body::to_bytes;

    use super::*;
    use crate::test_util::local_operator;

    struct HealthyServer;

    impl ServerProbe for HealthyServer {
        fn register_metrics(&self, _: &mut Registry) {}

        fn permanent_failure(&self) -> Option<String> {
            None
        }

        fn health_checks(&self) -> Vec<HealthCheck> {
            Vec::new()
        }
    }

    #[tokio::test]
    async fn caller_without_the_right_sees_one_word() {
        let check = |failure: Option<&str>| HealthCheck {
            name: "store",
            failure: failure.map(str::to_owned),
        };
        let cases = [
            (vec![check(None)], "ok\n", "ok: store\n"),
            (
                vec![check(Some("10.0.0.1 is silent")), check(None)],
                "failed\n",
                "failed: store: 10.0.0.1 is silent\nok: store\n",
            ),
        ];
        for (checks, word, text) in cases {
            let known = Some(Extension(local_operator()));
            for (caller, expected) in [(None, word), (known, text)] {
                let response = checks_response(&checks, caller);
                let body = to_bytes(response.into_body(), 100).await.unwrap();
                assert_eq!(body, expected);
            }
        }
    }

    #[tokio::test]
    async fn process_check_fails_while_server_threads_are_blocked() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).build().unwrap();
        let server = ObservedServer {
            watched: HealthyServer,
            runtime: runtime.handle().clone(),
        };
        assert_eq!(server.check_process().await.failure, None);
        let (unblock, blocked) = mpsc::channel::<()>();
        let blocked_task = runtime.spawn(async move { blocked.recv() });
        tokio::time::pause();
        let fault = server.check_process().await.failure.unwrap();
        tokio::time::resume();
        assert!(
            fault.starts_with("the threads of the server have done nothing for 5s"),
            "{fault}"
        );
        drop(unblock);
        assert!(blocked_task.await.unwrap().is_err());
        assert_eq!(server.check_process().await.failure, None);
        runtime.shutdown_background();
    }
}
