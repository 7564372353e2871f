//! Bounds of health, reflection and `Admin`, whose methods report nothing of what they take.

use super::*;
use crate::call_reservation::STANDARD_STREAMS_MAX;

const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
const CREATE: &str = "/seqsvr.v1.Admin/CreateNamespace";

/// Returns a request whose body sends these pieces, and then ends or sends nothing more.
fn request_in_pieces(
    path: &str,
    share: &ConnectionQuota,
    pieces: impl IntoIterator<Item = Vec<u8>>,
    ends: bool,
) -> Request<Body> {
    let data = pieces.into_iter().map(Bytes::from).collect();
    let mut request = Request::new(Body::new(TestBody { data, ends }));
    *request.uri_mut() = path.parse().unwrap();
    request.extensions_mut().insert(share.clone());
    request
}

/// Returns a message of this length with its prefix.
fn encode_message(length: usize) -> Vec<u8> {
    let mut message = vec![0];
    message.extend((length as u32).to_be_bytes());
    message.resize(message.len() + length, 7);
    message
}

/// Schedule: thousands of calls of health, reflection or `Admin`, each with all but one byte of its
/// message. They held 4 MiB each without end.
#[tokio::test(start_paused = true)]
async fn half_sent_messages_of_every_service_are_bounded_by_bytes_and_time() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let share = new_quota();
    for path in [CHECK, WATCH, REFLECTION[0], REFLECTION[1], CREATE] {
        let mut half = encode_message(1_000);
        half.pop();
        let bytes = half.len() as u64;
        let half = service.call(request_in_pieces(path, &share, [half], false));
        tokio::pin!(half);
        assert!(timeout(REQUEST_READ_TIMEOUT / 2, &mut half).await.is_err());
        assert_eq!(calls.buffered_bytes(), bytes, "{path}");
        let ended = timeout(REQUEST_READ_TIMEOUT, half).await;
        let answer = ended.expect("it times out").unwrap();
        let code = status_code(&answer);
        assert_eq!(code, Some(Code::DeadlineExceeded), "{path}");
        drop(answer);

        let mut large = encode_message(CONNECTION_BUFFERED_BYTES_MAX);
        large.pop();
        let answer = service
            .call(request_in_pieces(path, &share, [large], false))
            .await
            .unwrap();
        let code = status_code(&answer);
        assert_eq!(code, Some(Code::ResourceExhausted), "{path}");
        drop(answer);
        assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
    }
}

/// A caller may keep a stream of reflection without a request. Schedule: one that sends the
/// beginning of a message with the end of each before, and then no more.
#[tokio::test(start_paused = true)]
async fn standard_stream_ends_in_half_a_message_only() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let share = new_quota();
    let message = encode_message(1_000);
    let whole = [message.as_slice(), &message, &encode_message(0)].concat();
    for pieces in [
        vec![],
        vec![message.clone()],
        vec![whole.clone(), message.clone()],
        // Cut in the prefix, and everywhere else.
        whole.chunks(3).map(<[u8]>::to_vec).collect(),
    ] {
        let n = pieces.len();
        for path in REFLECTION.into_iter().chain([WATCH]) {
            let request = request_in_pieces(path, &share, pieces.clone(), false);
            let idle = service.call(request);
            tokio::pin!(idle);
            let ended = timeout(10 * REQUEST_READ_TIMEOUT, &mut idle).await;
            assert!(ended.is_err(), "{path} ended after {n} pieces");
            let held = (calls.calls_in_flight(), calls.buffered_bytes());
            assert_eq!(held, (1, 0), "{path} after {n} pieces");
        }
    }
    for begun in [1, 4, 5, 6, 1_004] {
        let pieces = [[&whole[..], &message[..begun]].concat()];
        let request = request_in_pieces(REFLECTION[0], &share, pieces, false);
        let half = service.call(request);
        tokio::pin!(half);
        assert!(timeout(REQUEST_READ_TIMEOUT / 2, &mut half).await.is_err());
        assert_eq!(calls.buffered_bytes(), begun as u64);
        let answer = half.await.unwrap();
        let code = status_code(&answer);
        assert_eq!(code, Some(Code::DeadlineExceeded), "{begun} bytes");
    }
    assert_eq!((calls.calls_in_flight(), calls.buffered_bytes()), (0, 0));
}

/// A body that sends a message's end and the next one's beginning again and again.
struct ChainedBody {
    piece: Bytes,
    pause: Pin<Box<tokio::time::Sleep>>,
}

impl http_body::Body for ChainedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        std::task::ready!(self.pause.as_mut().poll(cx));
        self.pause = Box::pin(tokio::time::sleep(REQUEST_READ_TIMEOUT / 2));
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}

/// The time is that of one message, and a message of which bytes trickle in gets no more of it.
#[tokio::test(start_paused = true)]
async fn read_timeout_of_standard_stream_is_that_of_one_message() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(echo_body));
    let share = new_quota();
    let mut open = |piece: Vec<u8>| {
        let mut request = request_in_pieces(REFLECTION[0], &share, [], false);
        *request.body_mut() = Body::new(ChainedBody {
            piece: piece.into(),
            pause: Box::pin(tokio::time::sleep(Duration::ZERO)),
        });
        service.call(request)
    };
    // Of messages without a byte, each piece has the end of one and the beginning of the next.
    for piece in [5, 6, 9] {
        let chained = open(vec![0; piece]);
        assert!(timeout(10 * REQUEST_READ_TIMEOUT, chained).await.is_err());
    }
    let trickling = open(vec![9]);
    let ended = timeout(2 * REQUEST_READ_TIMEOUT, trickling).await;
    let answer = ended.expect("it times out").unwrap();
    assert_eq!(status_code(&answer), Some(Code::DeadlineExceeded));
}

/// Schedule: callers open watches of health, whose answers begin at once and never end.
#[tokio::test]
async fn standard_streams_count_until_they_end_and_are_bounded() {
    let calls = new_limiter();
    let mut service = calls.layer(service_fn(|request: Request<Body>| async {
        let body = TestBody {
            data: [Bytes::from_static(b"serving")].into(),
            ends: request.uri().path() == CHECK,
        };
        drop(request);
        Ok::<_, Status>(Response::new(Body::new(body)))
    }));
    let (greedy, other) = (new_quota(), new_quota());
    let mut open = async |path: &str, quota: &ConnectionQuota| {
        let request = request_in_pieces(path, quota, [], true);
        service.call(request).await.unwrap()
    };
    let mut streams = Vec::new();
    for n in 0..STANDARD_STREAMS_MAX {
        let path = [WATCH, REFLECTION[0], REFLECTION[1]][n % 3];
        streams.push(open(path, &greedy).await);
        assert_eq!(status_code(&streams[n]), None, "stream {n}");
    }
    assert_eq!(calls.calls_in_flight(), STANDARD_STREAMS_MAX as u64);
    for path in [WATCH, REFLECTION[0], REFLECTION[1]] {
        let rejection = open(path, &greedy).await;
        let status = Status::from_header_map(rejection.headers()).unwrap();
        let fault = RpcError::from_status(&status);
        assert_eq!(fault.reason(), Reason::Overloaded, "{path}");
        assert!(fault.detail.retry_after_ms > 0, "no hint: {fault}");
    }
    // Other calls, and other connections, are not concerned.
    let check = open(CHECK, &greedy).await;
    let foreign = open(WATCH, &other).await;
    assert_eq!((status_code(&check), status_code(&foreign)), (None, None));
    assert_eq!(calls.calls_in_flight(), STANDARD_STREAMS_MAX as u64 + 2);
    streams.pop();
    assert_eq!(status_code(&open(WATCH, &greedy).await), None);
    drop((streams, check, foreign));
    assert_eq!(calls.calls_in_flight(), 0);
}
