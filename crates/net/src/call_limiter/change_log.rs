//! The log of changes: who requested them, and what became of them.

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};

use crate::connection_quota::ConnectionQuota;

/// One call that changes the cluster. One line is logged when it ends, also without its caller.
pub(super) struct ChangeLog {
    caller: Option<ConnectionQuota>,
    method: String,
    outcome: Option<Code>,
}

impl ChangeLog {
    /// Begins the call.
    pub(super) fn begin(call: &Request<Body>) -> ChangeLog {
        ChangeLog {
            caller: call.extensions().get::<ConnectionQuota>().cloned(),
            method: call.uri().path().to_owned(),
            outcome: None,
        }
    }

    /// Ends the call with its answer.
    pub(super) fn end(mut self, answer: &Response<Body>) {
        let failure = Status::from_header_map(answer.headers());
        self.outcome = Some(failure.map_or(Code::Ok, |status| status.code()));
    }
}

impl Drop for ChangeLog {
    fn drop(&mut self) {
        let caller = self.caller.as_ref().map(|quota| quota.peer().to_string());
        // None: the caller went away before the answer.
        let outcome = self.outcome.map(|code| format!("{code:?}"));
        tracing::info!(caller, method = self.method, outcome, "change requested");
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tonic::body::Body;
    use tonic::codegen::http::{Request, Response};
    use tonic::{Code, Status};
    use tower::{Layer, ServiceExt, service_fn};

    use crate::call_limiter::{CallLimiter, CallRule, CallShape, Roles};
    use crate::connection_quota::ConnectionQuota;
    use crate::peer::{ConnectionPeer, PeerCertificate, PeerIdentity};

    const CHANGE: &str = "/seqsvr.v1.Admin/CreateNamespace";
    const READ: &str = "/seqsvr.v1.Admin/ListNamespaces";

    fn rule_of(path: &str) -> Option<CallRule> {
        Some(match path {
            CHANGE => CallRule::of_change(CallShape::Unary, Roles::ANY),
            _ => CallRule::new(CallShape::Unary, Roles::ANY),
        })
    }

    /// Answers by what the caller sent.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        Ok(match request.headers().get("fails") {
            Some(_) => Status::new(Code::FailedPrecondition, "no").into_http(),
            None => Response::new(Body::empty()),
        })
    }

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn change_is_logged_with_its_caller_and_outcome() {
        let log = LogBuffer::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let peer = ConnectionPeer::before_handshake(([10, 0, 0, 9], 4).into());
        let identity = PeerIdentity::parse("seqsvr://p/admin/alice");
        peer.identify(identity.map(|who| PeerCertificate::new(who, Vec::new())));
        let calls = CallLimiter::new(1 << 20, rule_of, "none");
        for (path, fails) in [(READ, false), (CHANGE, false), (CHANGE, true)] {
            let mut request = Request::post(path).body(Body::empty()).unwrap();
            if fails {
                request.headers_mut().insert("fails", "1".parse().unwrap());
            }
            let quota = ConnectionQuota::new(peer.clone());
            request.extensions_mut().insert(quota);
            let service = calls.layer(service_fn(answer));
            service.oneshot(request).await.unwrap();
        }
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 2, "{log}");
        for (line, outcome) in lines.into_iter().zip(["Ok", "FailedPrecondition"]) {
            for part in [
                "INFO",
                "seqsvr://p/admin/alice at 10.0.0.9:4",
                CHANGE,
                outcome,
            ] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    }
}
