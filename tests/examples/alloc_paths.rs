//! Sends requests through one AllocSvr of this process, without a network, for a tool that counts
//! instructions: `cargo xtask count-instructions`.
//!
//! `alloc_paths PATH ROUNDS`, where PATH is one of [`PATHS`]. One round is one request of that
//! path: its encoded bytes go in, and the encoded answer comes out. The tool counts only
//! [`measured`].
//!
//! Every answer must come from memory at the first poll. Anything else ends the program with a
//! panic, so that a slow path is never counted as a fast one.

#![expect(
    clippy::expect_used,
    reason = "a program for developers: it may end with a panic"
)]

use std::convert::Infallible;
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http_body_util::StreamBody;
use hyper::body::{Body as _, Frame};
use prost::Message;
use seqsvr_access::{Access, Caller, Credentials};
use seqsvr_alloc::{AllocEnvironment, AllocServer, Clock};
use seqsvr_core::lease::ClockReading;
use seqsvr_net::LocalSequence;
use seqsvr_proto::convert::u128_to_bytes;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::sequence_server::SequenceServer;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{
    DescribeRequest, InitRequest, Member, NextManyRequest, NextManyResponse, NextRequest,
    NextResponse, PipeRequest, PipeResponse, pipe_request, pipe_response,
};
use seqsvr_store::StoreServer;
use tonic::body::Body;
use tonic::codegen::{Service, http};

/// Names of the paths.
const PATHS: [&str; 5] = ["next", "pipe", "sections", "keyed", "miss"];
/// Items of a Pipe frame, sections of a batch, and new keys of a batch.
const FRAME_ITEMS: u64 = 1_024;
const BATCH_ITEMS: u64 = 100;
const NEW_KEYS: u64 = 16;
/// Uids of one dense section.
const SECTION_SIZE: u64 = 100_000;
/// A lease that outlives the slowest run under Valgrind, in milliseconds.
const LEASE_MS: u32 = 60_000;
const START_TIMEOUT: Duration = Duration::from_secs(300);

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("usage: alloc_paths PATH ROUNDS");
    let rounds = args.next().and_then(|n| n.parse().ok());
    let rounds: u64 = rounds.expect("ROUNDS is a number");
    assert!(
        PATHS.contains(&path.as_str()),
        "PATH is one of {PATHS:?}, not {path}"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let _entered = runtime.enter();
    let (_store, alloc) = runtime.block_on(start_cluster(dir.path()));
    runtime.block_on(load_sections(alloc.local_addr()));
    let mut server = SequenceServer::new(alloc.sequence());
    match path.as_str() {
        "next" => {
            for round in 0..rounds {
                let request = NextRequest {
                    key_kind: Some(KeyKind::Uid(round % FRAME_ITEMS)),
                    ..NextRequest::default()
                };
                let answer = measured(
                    &mut server,
                    grpc_request("Next", [encode_message(&request)]),
                );
                let answer = NextResponse::decode(&answer[0][5..]).expect("an answer");
                assert!(answer.first > 0);
            }
        }
        "pipe" => {
            let frame = |round| PipeRequest {
                id: round,
                operation: Some(pipe_request::Operation::Next(uids_request(FRAME_ITEMS, 1))),
                ..PipeRequest::default()
            };
            let frames: Vec<Bytes> = (0..rounds).map(|n| encode_message(&frame(n))).collect();
            let answers = measured(&mut server, grpc_request("Pipe", frames)).concat();
            let mut answers = &answers[..];
            for _ in 0..rounds {
                let size = answers[1..5].try_into().expect("four bytes");
                let (answer, rest) = answers[5..].split_at(u32::from_be_bytes(size) as usize);
                let answer = PipeResponse::decode(answer).expect("an answer");
                let Some(pipe_response::Answer::Next(next)) = answer.answer else {
                    panic!("the frame was rejected");
                };
                check_answer(&next, FRAME_ITEMS);
                answers = rest;
            }
        }
        "sections" => run_batches(&mut server, rounds, |_| {
            uids_request(BATCH_ITEMS, SECTION_SIZE)
        }),
        "keyed" => run_batches(&mut server, rounds, |_| keys_request(0, BATCH_ITEMS)),
        // Every key is new in the first of its two requests.
        _ => run_batches(&mut server, 2 * rounds, |n| {
            keys_request(1_000 + n / 2 * NEW_KEYS, NEW_KEYS)
        }),
    }
    // The servers end with the process: a clean stop would take longer than the measured part.
    std::process::exit(0);
}

/// Calls the service and polls the answer until its end.
#[inline(never)]
fn measured<S>(server: &mut SequenceServer<S>, request: http::Request<Body>) -> Vec<Bytes>
where
    S: LocalSequence,
{
    let mut cx = Context::from_waker(Waker::noop());
    let called: Poll<Result<_, Infallible>> = server.call(request).as_mut().poll(&mut cx);
    let Poll::Ready(Ok(response)) = called else {
        panic!("the call was not answered from memory");
    };
    let mut body = pin!(response.into_body());
    let mut parts = Vec::new();
    loop {
        match body.as_mut().poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(frame))) => parts.extend(frame.into_data()),
            Poll::Ready(None) => return black_box(parts),
            Poll::Ready(Some(Err(status))) => panic!("the call failed: {status}"),
            Poll::Pending => panic!("an item was not answered from memory"),
        }
    }
}

fn run_batches<S: LocalSequence>(
    server: &mut SequenceServer<S>,
    rounds: u64,
    batch: impl Fn(u64) -> NextManyRequest,
) {
    for round in 0..rounds {
        let batch = batch(round);
        let items = (batch.uids.len() + batch.keys.len()) as u64;
        let answer = measured(server, grpc_request("NextMany", [encode_message(&batch)]));
        let answer = NextManyResponse::decode(&answer[0][5..]).expect("an answer");
        check_answer(&answer, items);
    }
}

fn check_answer(answer: &NextManyResponse, items: u64) {
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
    assert_eq!(answer.firsts.len() as u64, items);
    assert!(answer.firsts.iter().all(|first| *first > 0));
}

fn uids_request(items: u64, apart: u64) -> NextManyRequest {
    NextManyRequest {
        uids: (0..items).map(|n| n * apart).collect(),
        ..NextManyRequest::default()
    }
}

fn keys_request(first: u64, items: u64) -> NextManyRequest {
    let key = |n: u64| Bytes::from(format!("{n:020}"));
    NextManyRequest {
        keys: (first..first + items).map(key).collect(),
        ..NextManyRequest::default()
    }
}

/// Encodes a gRPC message with its prefix.
fn encode_message(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len() as u32);
    message.encode(&mut bytes).expect("it grows");
    bytes.freeze()
}

fn grpc_request<M>(method: &str, messages: M) -> http::Request<Body>
where
    M: IntoIterator<Item = Bytes>,
    M::IntoIter: Send + 'static,
{
    let frames = messages
        .into_iter()
        .map(|message| Ok::<_, Infallible>(Frame::data(message)));
    http::Request::builder()
        .method("POST")
        .uri(format!("http://alloc/seqsvr.v1.Sequence/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .extension(local_operator())
        .body(Body::new(StreamBody::new(stream::iter(frames))))
        .expect("a request")
}

/// Returns the caller that the layer of calls finds on loopback, which is not measured here.
fn local_operator() -> Caller {
    let shown = Credentials::Plaintext(std::net::Ipv4Addr::LOCALHOST.into());
    let judged = Access::by_role().judge(shown);
    judged.expect("callers on loopback are known")
}

/// Starts one store and one AllocSvr that owns all slots.
async fn start_cluster(dir: &std::path::Path) -> (StoreServer, AllocServer) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let environment = seqsvr_store::StoreEnvironment {
        clock: Arc::new(read_libc_clock),
        ..seqsvr_store::StoreEnvironment::system()
    };
    let store = StoreServer::start_in(seqsvr_store::Options::new(1, any, dir), environment).await;
    let store = store.expect("the store starts");
    let address = store.local_addr().to_string();
    let mut client = StoreClient::connect(format!("http://{address}"))
        .await
        .expect("the store listens");
    let described = client.describe(DescribeRequest {}).await;
    let described = described.expect("the store answers").into_inner();
    let init = InitRequest {
        cluster: u128_to_bytes(7),
        members: vec![Member {
            id: described.node,
            address: described.address,
            incarnation: described.incarnation,
        }],
        lease_ms: LEASE_MS,
        slots: 64,
    };
    client.init(init).await.expect("the cluster is made");
    let mut options = seqsvr_alloc::Options::new("a1", any, vec![address]);
    options.seed = Some(1);
    let environment = AllocEnvironment {
        clock: Arc::new(LibcClock),
        ..AllocEnvironment::system()
    };
    let alloc = AllocServer::start_in(options, environment).await;
    (store, alloc.expect("the AllocSvr starts"))
}

/// The system's clock, read through libc. The servers' own clock looks for the vDSO, which Valgrind
/// hides.
struct LibcClock;

impl Clock for LibcClock {
    fn now(&self) -> ClockReading {
        read_libc_clock()
    }
}

fn read_libc_clock() -> ClockReading {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let ns = ORIGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    ClockReading {
        main_ns: ns,
        raw_ns: ns,
    }
}

/// Waits until every item of the measured requests is in memory.
async fn load_sections(address: SocketAddr) {
    let deadline = Instant::now() + START_TIMEOUT;
    for batch in [
        uids_request(FRAME_ITEMS, 1),
        uids_request(BATCH_ITEMS, SECTION_SIZE),
        // Enough keys that every section of the keyed namespace is open.
        keys_request(1_000_000, 9_000),
        keys_request(1_100_000, 9_000),
        keys_request(1_200_000, 9_000),
        keys_request(1_300_000, 9_000),
        keys_request(1_400_000, 9_000),
        keys_request(0, BATCH_ITEMS),
    ] {
        loop {
            assert!(Instant::now() < deadline, "the sections were not opened");
            let Ok(mut client) = SequenceClient::connect(format!("http://{address}")).await else {
                continue;
            };
            let mut request = tonic::Request::new(batch.clone());
            request.set_timeout(Duration::from_secs(50));
            match client.next_many(request).await {
                Ok(answer) if answer.get_ref().errors.is_empty() => break,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}
