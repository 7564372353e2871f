use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as _, Frame};
use prost::Message;
use seqsvr_access::{AccessFile, Caller, ClusterRight, Secret};
use tokio::time::timeout;
use tonic::Code;
use tower::service_fn;

use super::*;
use crate::call_limiter::limited_body::REQUEST_READ_TIMEOUT;
use crate::connection_quota::{CONNECTION_BUFFERED_BYTES_MAX, WRITE_STALL_TIMEOUT};
use crate::peer::{BadIdentity, ConnectionPeer, PeerCertificate, PeerIdentity, Role};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::ITEMS_MAX;
use seqsvr_proto::v1::{NextManyRequest, Reason};

const PREFIX: &str = "/seqsvr.v1.Sequence/";
const CREATE_NAMESPACE: &str = "/seqsvr.v1.Admin/CreateNamespace";

fn new_limiter() -> CallLimiter {
    let rule_of = |path: &str| {
        let shape = match path.strip_prefix(PREFIX) {
            Some("Pipe") => CallShape::Pipe,
            Some("InstallSnapshot") => CallShape::RequestStream,
            Some("Watch") => CallShape::ResponseStream,
            Some("Append") => CallShape::Unary,
            Some(_) => CallShape::Sequence,
            None if path == CREATE_NAMESPACE => CallShape::Unary,
            None => return CallRule::of_standard_service(path),
        };
        Some(CallRule::new(shape, Roles::new(&[Role::Client])))
    };
    CallLimiter::new(512 << 20, rule_of, "no such call")
}

/// A body that sends `data`, and then ends or sends nothing more.
struct TestBody {
    data: VecDeque<Bytes>,
    ends: bool,
}

impl http_body::Body for TestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.data.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Collects a request, fails as its body fails, and answers with as many bytes.
async fn echo_body(request: Request<Body>) -> Result<Response<Body>, Status> {
    let mut body = request.into_body();
    let mut data = VecDeque::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match frame {
            Ok(frame) => data.extend(frame.into_data().ok()),
            Err(status) => return Ok(status.into_http()),
        }
    }
    Ok(Response::new(Body::new(TestBody { data, ends: true })))
}

fn next_many_request(share: &ConnectionQuota, bytes: usize, ends: bool) -> Request<Body> {
    request_to("NextMany", share, bytes, ends)
}

fn request_to(method: &str, share: &ConnectionQuota, bytes: usize, ends: bool) -> Request<Body> {
    let data = [Bytes::from(vec![0; bytes])].into();
    let uri = format!("{PREFIX}{method}");
    let mut request = Request::new(Body::new(TestBody { data, ends }));
    *request.uri_mut() = uri.parse().unwrap();
    request.extensions_mut().insert(share.clone());
    request
}

fn new_quota() -> ConnectionQuota {
    ConnectionQuota::new(ConnectionPeer::plaintext("127.0.0.1:1".parse().unwrap()))
}

/// Returns who connects under TLS with a certificate that says this.
fn certified(identity: Result<&str, BadIdentity>) -> ConnectionPeer {
    let peer = ConnectionPeer::before_handshake("127.0.0.1:1".parse().unwrap());
    let certificate = |who| PeerCertificate::new(who, Vec::new());
    peer.identify(identity.and_then(PeerIdentity::parse).map(certificate));
    peer
}

/// A method without a rule and a caller without its role are rejected before a body byte is read.
/// Without TLS everybody may call.
#[tokio::test]
async fn call_is_admitted_by_its_rule_before_its_body_is_read() {
    let calls = new_limiter();
    let reached = std::sync::Arc::new(AtomicUsize::new(0));
    let count = reached.clone();
    let mut service = calls.layer(service_fn(move |request| {
        count.fetch_add(1, Relaxed);
        echo_body(request)
    }));
    let remote = "127.0.0.1:1".parse().unwrap();
    let none = PeerIdentity::parse("two URIs").unwrap_err();
    let health = "/grpc.health.v1.Health/Check";
    let next = "/seqsvr.v1.Sequence/Next";
    let unknown = "/seqsvr.v1.Sequence2/Next";
    let (denied, nameless) = (Some(Code::PermissionDenied), Some(Code::Unauthenticated));
    let unimplemented = Some(Code::Unimplemented);
    for (peer, expected) in [
        (
            ConnectionPeer::plaintext(remote),
            [None, None, unimplemented],
        ),
        (
            certified(Ok("seqsvr://p/client/b")),
            [None, None, unimplemented],
        ),
        (
            certified(Ok("seqsvr://p/store/s1")),
            [denied, None, unimplemented],
        ),
        (
            certified(Ok("seqsvr://p/alloc/a1")),
            [denied, None, unimplemented],
        ),
        (
            certified(Ok("seqsvr://p/admin/x")),
            [denied, None, unimplemented],
        ),
        (certified(Err(none)), [nameless, nameless, unimplemented]),
        (
            ConnectionPeer::before_handshake(remote),
            [nameless, nameless, unimplemented],
        ),
    ] {
        for (path, expected) in [next, health, unknown].into_iter().zip(expected) {
            let share = ConnectionQuota::new(peer.clone());
            let before = reached.load(Relaxed);
            // A rejection waits for no byte of a body that does not end.
            let ends = expected.is_none();
            let data = [Bytes::from_static(&[0; 5])].into();
            let mut request = Request::new(Body::new(TestBody { data, ends }));
            *request.uri_mut() = path.parse().unwrap();
            request.extensions_mut().insert(share);
            let answer = service.call(request).await.unwrap();
            assert_eq!(status_code(&answer), expected, "{path} {peer:?}");
            let reached = reached.load(Relaxed) - before;
            assert_eq!(reached, usize::from(expected.is_none()), "{path} {peer:?}");
        }
    }
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

/// Principals are judged by their rights alone, before a body byte is read, and a method whose rule
/// says nothing of them is closed. Their roles do not count, nor do their rights for others.
#[tokio::test]
async fn principal_is_admitted_by_the_right_of_the_method() {
    let token = Secret::generate().unwrap();
    let text = format!(
        "[[principal]]\nname='ops'\nsha256=['{}']\ncluster=['status']\n",
        token.hash()
    );
    let rule_of = |path: &str| {
        let rule = CallRule::new(CallShape::Unary, Roles::new(&[Role::Client]));
        Some(match path {
            "/closed" => rule,
            "/open" => rule.for_principals(CallRight::Open),
            "/named" => rule.for_principals(CallRight::Named),
            "/status" => rule.for_principals(CallRight::Cluster(ClusterRight::Status)),
            "/admin" => rule.for_principals(CallRight::Cluster(ClusterRight::Admin)),
            _ => return None,
        })
    };
    let access = Access::by_file(AccessFile::parse(&text).unwrap());
    let calls = CallLimiter::new(1 << 20, rule_of, "no such call").with_access(access);
    let reached = std::sync::Arc::new(Mutex::new(Vec::new()));
    let callers = reached.clone();
    let mut service = calls.layer(service_fn(move |request: Request<Body>| {
        let caller: Option<&Caller> = request.extensions().get();
        callers
            .lock()
            .unwrap()
            .push(caller.map(ToString::to_string));
        echo_body(request)
    }));
    let none = || certified(PeerIdentity::parse("none").map(|_| ""));
    let bearer = format!("Bearer {}", token.expose());
    let (denied, nameless) = (Some(Code::PermissionDenied), Some(Code::Unauthenticated));
    let ops = "principal ops";
    for (peer, token, who, expected) in [
        (
            none(),
            Some(&bearer),
            ops,
            [denied, None, None, None, denied],
        ),
        (none(), None, "", [nameless; 5]),
        (
            certified(Ok("seqsvr://p/client/ops")),
            None,
            ops,
            [denied, None, None, None, denied],
        ),
        (
            certified(Ok("seqsvr://p/client/x")),
            None,
            "a client without a principal of its name",
            [denied, None, None, denied, denied],
        ),
        (certified(Ok("seqsvr://p/alloc/a1")), None, "", [denied; 5]),
        (
            certified(Ok("seqsvr://p/alloc/a1")),
            Some(&bearer),
            ops,
            [denied, None, None, None, denied],
        ),
    ] {
        let paths = ["/closed", "/open", "/named", "/status", "/admin"];
        for (path, expected) in paths.into_iter().zip(expected) {
            let ends = expected.is_none();
            let data = [Bytes::from_static(&[0; 5])].into();
            let mut request = Request::new(Body::new(TestBody { data, ends }));
            *request.uri_mut() = path.parse().unwrap();
            if let Some(token) = token {
                let value = token.parse().unwrap();
                request.headers_mut().insert("authorization", value);
            }
            let share = ConnectionQuota::new(peer.clone());
            request.extensions_mut().insert(share);
            let answer = service.call(request).await.unwrap();
            assert_eq!(status_code(&answer), expected, "{path} {peer:?}");
            let reached = std::mem::take(&mut *reached.lock().unwrap());
            let expected = expected.is_none().then(|| Some(who.to_owned()));
            assert_eq!(reached, expected.into_iter().collect::<Vec<_>>(), "{path}");
        }
    }
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

fn status_code(answer: &Response<Body>) -> Option<Code> {
    let status = Status::from_header_map(answer.headers());
    status.map(|status| status.code())
}

#[tokio::test(start_paused = true)]
async fn half_a_request_times_out_and_reserves_nothing() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let share = new_quota();
    let half = service.call(next_many_request(&share, 1_000, false));
    tokio::pin!(half);
    assert!(timeout(REQUEST_READ_TIMEOUT / 2, &mut half).await.is_err());
    assert_eq!(
        (calls.calls_in_flight(), calls.buffered_bytes()),
        (1, 1_000)
    );
    let answer = half.await.unwrap();
    assert_eq!(status_code(&answer), Some(Code::DeadlineExceeded));
    drop(answer);
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

#[tokio::test]
async fn bytes_of_one_connection_are_bounded_separately() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let (greedy, other) = (new_quota(), new_quota());
    let most = CONNECTION_BUFFERED_BYTES_MAX;
    // An answer that the caller does not take.
    let kept = service
        .call(next_many_request(&greedy, most, true))
        .await
        .unwrap();
    assert_eq!(calls.buffered_bytes(), most as u64);
    let rejection = service
        .call(next_many_request(&greedy, 1, true))
        .await
        .unwrap();
    let fault = RpcError::from_status(&Status::from_header_map(rejection.headers()).unwrap());
    assert_eq!(
        (fault.code, fault.reason()),
        (Code::ResourceExhausted, Reason::Overloaded)
    );
    assert!(fault.detail.retry_after_ms > 0, "no hint: {fault}");
    let served = service
        .call(next_many_request(&other, 1, true))
        .await
        .unwrap();
    assert_eq!(status_code(&served), None);
    drop((kept, rejection, served));
    assert_eq!(
        (
            calls.calls_in_flight(),
            calls.buffered_bytes(),
            calls.calls_rejected()
        ),
        (0, 0, 1)
    );
    let again = service
        .call(next_many_request(&greedy, most, true))
        .await
        .unwrap();
    assert_eq!(status_code(&again), None);
}

/// Twenty thousand keys without a byte come as 40 KB and take 640 KB as long as their call lasts.
#[tokio::test]
async fn connection_bytes_count_decoded_requests() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let share = new_quota();
    let keys = vec![Bytes::new(); 2 * ITEMS_MAX - 1];
    let becomes = size_of_val(&keys[..]);
    let request = NextManyRequest {
        keys,
        ..NextManyRequest::default()
    };
    let body = request.encode_to_vec();
    let sent = [&[0], &(body.len() as u32).to_be_bytes()[..], &body].concat();
    let sent = Bytes::from(sent);
    let mut held = Vec::new();
    let rejection = loop {
        let data = [sent.clone()].into();
        let mut request = Request::new(Body::new(TestBody { data, ends: false }));
        *request.uri_mut() = format!("{PREFIX}NextMany").parse().unwrap();
        request.extensions_mut().insert(share.clone());
        let mut call = service.call(request);
        let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        match polled {
            Poll::Ready(answer) => break answer.unwrap(),
            Poll::Pending => held.push(call),
        }
        assert!(
            held.len() * becomes <= CONNECTION_BUFFERED_BYTES_MAX,
            "beyond the bound"
        );
    };
    assert_eq!(status_code(&rejection), Some(Code::ResourceExhausted));
    assert!(held.len() > 50, "after {}", held.len());
    drop((held, rejection));
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

/// A stream lives as long as its caller keeps it; half a message in it does not.
#[tokio::test(start_paused = true)]
async fn stream_messages_are_bounded_one_by_one() {
    let calls = new_limiter();
    let messages = Arc::new(Mutex::new(None));
    let given = messages.clone();
    let mut taking = calls.layer(service_fn(move |request: Request<Body>| {
        let given = given.clone();
        async move {
            let taken = request.extensions().get::<StreamMeter>().unwrap().clone();
            let mut body = request.into_body();
            let first = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
            assert!(first.unwrap().is_ok());
            taken.message_taken();
            *given.lock().unwrap() = Some(taken);
            Ok::<_, Status>(Response::new(body))
        }
    }));
    let share = new_quota();
    let whole = request_to("Pipe", &share, 1_000, false);
    let mut body = taking.call(whole).await.unwrap().into_body();
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (1, 0));
    // The kept part counts separately, and is bounded.
    let messages = messages.lock().unwrap().take().unwrap();
    let kept = messages.retain(CONNECTION_BUFFERED_BYTES_MAX).unwrap();
    assert_eq!(calls.calls_in_flight(), 2);
    let rejection = RpcError::from_status(&messages.retain(1).err().unwrap());
    assert_eq!(rejection.code, Code::ResourceExhausted);
    assert!(rejection.detail.retry_after_ms > 0, "no hint: {rejection}");
    messages.message_taken();
    assert_eq!(
        calls.buffered_bytes(),
        CONNECTION_BUFFERED_BYTES_MAX as u64,
        "still kept"
    );
    drop(kept);
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (1, 0));
    drop(messages);
    let more = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
    assert!(timeout(10 * REQUEST_READ_TIMEOUT, more).await.is_err());
    drop(body);
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));

    let mut keeping = calls.layer(service_fn(echo_body));
    let half = request_to("Pipe", &share, 1_000, false);
    let answer = keeping.call(half).await.unwrap();
    assert_eq!(status_code(&answer), Some(Code::DeadlineExceeded));
    let most = request_to("Pipe", &share, CONNECTION_BUFFERED_BYTES_MAX + 1, true);
    let answer = keeping.call(most).await.unwrap();
    assert_eq!(status_code(&answer), Some(Code::ResourceExhausted));
    drop(answer);
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn connection_is_stalled_when_no_response_is_taken() {
    let mut service = new_limiter().layer(service_fn(echo_body));
    let share = new_quota();
    tokio::time::sleep(2 * WRITE_STALL_TIMEOUT).await;
    let first = service
        .call(next_many_request(&share, 10, true))
        .await
        .unwrap();
    let second = service
        .call(next_many_request(&share, 10, true))
        .await
        .unwrap();
    assert!(!share.is_stuck(), "nothing is late yet");
    tokio::time::sleep(WRITE_STALL_TIMEOUT).await;
    drop(first);
    tokio::time::sleep(WRITE_STALL_TIMEOUT).await;
    assert!(!share.is_stuck(), "one was taken");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(share.is_stuck());
    drop(second);
    assert!(!share.is_stuck(), "none is due");
}

/// Schedule: half of a message of each of thousands of calls, or of a stream, of a server's own
/// services. The bytes are no items: a message of any form passes.
#[tokio::test(start_paused = true)]
async fn messages_of_other_services_are_bounded_by_bytes_and_time() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let share = new_quota();
    for method in ["Append", "InstallSnapshot", "Watch"] {
        let half = service.call(request_to(method, &share, 1_000, false));
        tokio::pin!(half);
        assert!(timeout(REQUEST_READ_TIMEOUT / 2, &mut half).await.is_err());
        assert_eq!(calls.buffered_bytes(), 1_000, "{method}");
        let answer = half.await.unwrap();
        assert_eq!(
            status_code(&answer),
            Some(Code::DeadlineExceeded),
            "{method}"
        );
        let large = request_to(method, &share, CONNECTION_BUFFERED_BYTES_MAX + 1, true);
        let answer = service.call(large).await.unwrap();
        assert_eq!(
            status_code(&answer),
            Some(Code::ResourceExhausted),
            "{method}"
        );
        let whole = request_to(method, &share, 40_000, true);
        let answer = service.call(whole).await.unwrap();
        assert_eq!(status_code(&answer), None, "{method}");
    }
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

/// Schedule: more connections than a server has room for, each below its own bound.
#[tokio::test]
async fn bytes_of_all_connections_are_bounded() {
    let most = 3 * CONNECTION_BUFFERED_BYTES_MAX / 2;
    const RULE: CallRule = CallRule::new(CallShape::Unary, Roles::ANY);
    let calls = CallLimiter::new(most, |_| Some(RULE), "no such call");
    let mut service = calls.layer(service_fn(echo_body));
    let (first, second) = (new_quota(), new_quota());
    let full = CONNECTION_BUFFERED_BYTES_MAX;
    let kept = service
        .call(next_many_request(&first, full, true))
        .await
        .unwrap();
    let rejection = service
        .call(next_many_request(&second, full, true))
        .await
        .unwrap();
    assert_eq!(status_code(&rejection), Some(Code::ResourceExhausted));
    let served = service
        .call(next_many_request(&second, full / 2, true))
        .await
        .unwrap();
    assert_eq!(status_code(&served), None);
    drop((kept, rejection, served));
    assert_eq!(calls.buffered_bytes(), 0);
}

/// Schedule: AllocSvrs hold all bytes that a store has for callers. Those of Raft still pass, and
/// have a bound too.
#[tokio::test]
async fn stores_have_bytes_of_their_own() {
    const RULE: CallRule = CallRule::new(CallShape::Unary, Roles::ANY);
    let full = CONNECTION_BUFFERED_BYTES_MAX;
    let calls = CallLimiter::new(full, |_| Some(RULE), "no such call");
    let mut service = calls.layer(service_fn(echo_body));
    let mut kept = Vec::new();
    for (who, bytes, expected) in [
        ("alloc/a1", full, None),
        ("alloc/a2", 1, Some(Code::ResourceExhausted)),
        ("store/s1", full, None),
        ("store/s2", 1, Some(Code::ResourceExhausted)),
    ] {
        let share = ConnectionQuota::new(certified(Ok(&format!("seqsvr://p/{who}"))));
        let answer = service.call(next_many_request(&share, bytes, true)).await;
        let answer = answer.unwrap();
        assert_eq!(status_code(&answer), expected, "{who}");
        kept.push(answer);
    }
    assert_eq!(calls.buffered_bytes(), (full + STORE_BYTES_MAX) as u64);
    assert_eq!(calls.calls_rejected(), 2);
    drop(kept);
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

mod standard_services;
