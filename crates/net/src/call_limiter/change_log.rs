//! The log of changes: who requested them, and what became of them.
//!
//! Invariant: each change has a line with its outcome, also one that its caller forced by a field
//! of its message, and one whose answer is a stream. Changes that a caller may not make have a line
//! in 10 s at most, with their number. Schedule that breaks it: the holder of a client's
//! certificate tries each change of operators, and the log has nothing of it; or it tries them
//! without end, and the log has nothing else.

use std::sync::Arc;

use seqsvr_access::Caller;
use tonic::codegen::http::HeaderMap;
use tonic::{Code, Extensions, Status};

use crate::connection_quota::ConnectionQuota;
use crate::line_throttle::LineThrottle;

/// Log of the changes that one server receives. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ChangeLog(Arc<LineThrottle>);

impl ChangeLog {
    /// Begins a change. Its caller is that of the extensions of its call.
    pub fn begin(&self, extensions: &Extensions, method: &str) -> RequestedChange {
        RequestedChange {
            denials: self.0.clone(),
            connection: extensions.get().cloned(),
            caller: extensions.get().cloned(),
            method: method.to_owned(),
            outcome: None,
        }
    }
}

/// One change that a call requests. It is logged when it ends, also without its caller.
pub struct RequestedChange {
    denials: Arc<LineThrottle>,
    connection: Option<ConnectionQuota>,
    caller: Option<Caller>,
    method: String,
    outcome: Option<Code>,
}

impl RequestedChange {
    /// Ends the change.
    pub fn end(mut self, outcome: Code) {
        self.outcome = Some(outcome);
    }

    /// Ends the change with the head or the end of its answer.
    pub(super) fn end_with(self, headers: &HeaderMap) {
        let status = Status::from_header_map(headers);
        self.end(status.map_or(Code::Ok, |status| status.code()));
    }
}

impl Drop for RequestedChange {
    fn drop(&mut self) {
        let peer = self.connection.as_ref().map(|quota| quota.peer());
        let principal = self.caller.as_ref().filter(|who| who.grants().is_some());
        let caller = peer.map(|peer| match principal {
            Some(principal) => format!("{principal}, {peer}"),
            None => peer.to_string(),
        });
        // None: the caller went away before the end of the answer.
        let outcome = self.outcome.map(|code| format!("{code:?}"));
        let method = &self.method;
        match self.outcome {
            Some(Code::PermissionDenied | Code::Unauthenticated) => {
                if let Some(denied) = self.denials.count_event() {
                    tracing::warn!(
                        caller,
                        method,
                        outcome,
                        denied,
                        "changes denied; the last one"
                    );
                }
            }
            _ => tracing::info!(caller, method, outcome, "change requested"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use http_body::{Body as _, Frame};
    use parking_lot::Mutex;
    use tonic::body::Body;
    use tonic::codegen::http::{Request, Response};
    use tower::{Layer, ServiceExt, service_fn};

    use super::*;
    use crate::call_limiter::{CallLimiter, CallRule, CallShape, Roles};
    use crate::peer::{ConnectionPeer, PeerCertificate, PeerIdentity, Role};

    const CHANGE: &str = "/seqsvr.v1.Admin/CreateNamespace";
    const BACKUP: &str = "/seqsvr.v1.Admin/Backup";
    const READ: &str = "/seqsvr.v1.Admin/ListNamespaces";
    /// A change that an AllocSvr relays, and does not make itself.
    const RELAYED: &str = "/seqsvr.v1.Admin/AddMember";

    fn rule_of(path: &str) -> Option<CallRule> {
        Some(match path {
            CHANGE => CallRule::of_change(CallShape::Unary, Roles::OPERATORS),
            BACKUP => CallRule::of_change(CallShape::ResponseStream, Roles::OPERATORS),
            RELAYED => CallRule::new(CallShape::Unary, Roles::OPERATORS),
            _ => CallRule::new(CallShape::Unary, Roles::new(&[Role::Store])),
        })
    }

    /// Answers by what the caller sent.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, Infallible> {
        Ok(match request.headers().get("fails") {
            Some(_) => Status::new(Code::FailedPrecondition, "no").into_http(),
            None if request.uri().path() == BACKUP => Response::new(Body::new(CutBackup(false))),
            None => Response::new(Body::empty()),
        })
    }

    /// A backup that fails after its first part.
    struct CutBackup(bool);

    impl http_body::Body for CutBackup {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(Some(Ok(match std::mem::replace(&mut self.0, true) {
                false => Frame::data(Bytes::from_static(b"part")),
                true => {
                    let mut end = HeaderMap::new();
                    let status = Status::new(Code::DataLoss, "damaged");
                    status.add_header(&mut end).unwrap();
                    Frame::trailers(end)
                }
            })))
        }
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

    /// Runs `calls` as this peer, and returns the lines of the log.
    async fn log_of(identity: &str, calls: &[(&str, bool)]) -> String {
        let log = LogBuffer::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let peer = ConnectionPeer::before_handshake(([10, 0, 0, 9], 4).into());
        let identity = PeerIdentity::parse(identity);
        peer.identify(identity.map(|who| PeerCertificate::new(who, Vec::new())));
        let limiter = CallLimiter::new(1 << 20, rule_of, "none");
        for (path, fails) in calls {
            let mut request = Request::post(*path).body(Body::empty()).unwrap();
            if *fails {
                request.headers_mut().insert("fails", "1".parse().unwrap());
            }
            let quota = ConnectionQuota::new(peer.clone());
            request.extensions_mut().insert(quota);
            let service = limiter.layer(service_fn(answer));
            let mut body = service.oneshot(request).await.unwrap().into_body();
            while let Some(Ok(frame)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                if frame.is_trailers() {
                    break;
                }
            }
        }
        let log = log.0.lock().clone();
        String::from_utf8(log).unwrap()
    }

    #[tokio::test]
    async fn change_is_logged_with_its_caller_and_outcome() {
        let calls = [
            (READ, false),
            (CHANGE, false),
            (CHANGE, true),
            (BACKUP, false),
            (BACKUP, true),
            (RELAYED, false),
        ];
        let log = log_of("seqsvr://p/admin/alice", &calls).await;
        let expected = [
            (CHANGE, "Ok"),
            (CHANGE, "FailedPrecondition"),
            (BACKUP, "DataLoss"),
            (BACKUP, "FailedPrecondition"),
        ];
        assert_eq!(log.lines().count(), expected.len(), "{log}");
        for (line, (path, outcome)) in log.lines().zip(expected) {
            let caller = "seqsvr://p/admin/alice at 10.0.0.9:4";
            for part in ["INFO", "change requested", caller, path, outcome] {
                assert!(line.contains(part), "{part}: {line}");
            }
        }
    }

    /// Schedule: see the head of this file.
    #[tokio::test]
    async fn denied_changes_are_logged_with_their_number() {
        for path in [CHANGE, BACKUP, RELAYED] {
            let log = log_of("seqsvr://p/client/c1", &[(READ, false), (path, false)]).await;
            assert_eq!(log.lines().count(), 1, "{log}");
            let caller = "seqsvr://p/client/c1 at 10.0.0.9:4";
            for part in [
                "WARN",
                "changes denied",
                caller,
                path,
                "PermissionDenied",
                "denied=1",
            ] {
                assert!(log.contains(part), "{part}: {log}");
            }
        }
        let log = log_of("seqsvr://p/client/c1", &[(CHANGE, false); 100]).await;
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}
