//! The load generator: unary calls of one kind, or frames of the baseline stream.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use prost::Message;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_net::tls::{Role, TlsTransport};
use seqsvr_net::{connect_lazy, for_role};
use seqsvr_proto::v1::{NextRequest, NextResponse, next_request};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::foreign_messages::{
    EtcdOperation, GetSeqRequest, GetSeqResponse, NumberFrame, PutRequest, RangeRequest, RequestOp,
    TxnRequest, TxnResponse,
};
use super::grpc_server::{NEXT_PATH, STREAM_PATH};

const SEQSVR_PATH: &str = "/seqsvr.v1.Sequence/Next";
const ETCD_PATH: &str = "/etcdserverpb.KV/Txn";
const TSORACLE_PATH: &str = "/tsoracle.v1.TsoService/GetSeq";

/// Uids of which the frames of the baseline stream take numbers.
const UIDS: u64 = 10_000_000;
/// Frames in flight on each baseline stream.
const FRAMES_IN_FLIGHT: usize = 16;

/// Kind of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadKind {
    /// Unary calls of the baseline service
    Baseline,
    /// Frames of the baseline service, `--per-frame` numbers each
    Stream,
    /// `seqsvr.v1.Sequence/Next`, as any gRPC client calls it
    Seqsvr,
    /// An etcd transaction that writes a key and reads its number of writes
    Etcd,
    /// `tsoracle.v1.TsoService/GetSeq`
    Tsoracle,
}

/// Options of the load.
#[derive(Args, Clone, Debug)]
pub struct GrpcLoad {
    /// Kind of the calls
    #[arg(long, value_enum)]
    pub what: LoadKind,
    /// `host:port` of the server
    #[arg(long)]
    pub to: String,
    /// Directory with which seqsvr is called under TLS
    #[arg(long, value_name = "DIR")]
    pub tls_dir: Option<PathBuf>,
    /// Number of connections; each carries one stream if the calls are frames
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Number of unary calls in flight
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub in_flight: u32,
    /// Numbers per frame
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub per_frame: u32,
    /// Time for which the load is measured, in ms
    #[arg(long, default_value_t = 3_000)]
    pub ms: u64,
    /// Time before the measurement, in ms
    #[arg(long, default_value_t = 500)]
    pub warm_up_ms: u64,
}

/// State that all tasks of a run share.
#[derive(Default)]
struct GrpcLoadState {
    numbers: AtomicU64,
    is_over: AtomicBool,
}

type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Runs the load and returns the numbers per second.
///
/// # Errors
/// A call failed, or a number of a key was not greater than the one before.
pub async fn run_load(load: GrpcLoad) -> Result<f64, LoadError> {
    let state = Arc::new(GrpcLoadState::default());
    let mut tasks: JoinSet<Result<(), LoadError>> = JoinSet::new();
    let mut channels = Vec::new();
    let tls = load.tls_dir.as_deref().map(TlsTransport::from_dir);
    let tls = tls.transpose()?;
    for _ in 0..load.connections {
        let endpoint = Endpoint::from_shared(format!("http://{}", load.to))?.tcp_nodelay(true);
        channels.push(match &tls {
            Some(tls) => connect_lazy(for_role(tls, Role::Alloc), &endpoint),
            None => endpoint.connect().await?,
        });
    }
    if load.what == LoadKind::Stream {
        for channel in channels {
            tasks.spawn(send_frames(state.clone(), channel, load.per_frame));
        }
    } else {
        for (channel, key) in channels.into_iter().cycle().zip(0..load.in_flight) {
            spawn_caller(&mut tasks, load.what, state.clone(), channel, key.into());
        }
    }
    let rate = measure_rate(&load, &state, &mut tasks).await?;
    state.is_over.store(true, Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(rate)
}

/// Starts a task that makes unary calls for one key.
fn spawn_caller(
    tasks: &mut JoinSet<Result<(), LoadError>>,
    kind: LoadKind,
    state: Arc<GrpcLoadState>,
    channel: Channel,
    key: u64,
) {
    match kind {
        LoadKind::Etcd => {
            let number_of = |response: &TxnResponse| key_version(response);
            tasks.spawn(make_calls(
                state,
                channel,
                ETCD_PATH,
                txn_request(key),
                number_of,
            ));
        }
        LoadKind::Tsoracle => {
            let number_of = |response: &GetSeqResponse| response.start;
            let request = get_seq_request(key);
            tasks.spawn(make_calls(
                state,
                channel,
                TSORACLE_PATH,
                request,
                number_of,
            ));
        }
        LoadKind::Seqsvr | LoadKind::Baseline | LoadKind::Stream => {
            let path = match kind {
                LoadKind::Seqsvr => SEQSVR_PATH,
                _ => NEXT_PATH,
            };
            let number_of = |response: &NextResponse| response.first;
            tasks.spawn(make_calls(
                state,
                channel,
                path,
                next_request(key),
                number_of,
            ));
        }
    }
}

/// Returns the numbers per second after the warm-up.
async fn measure_rate(
    load: &GrpcLoad,
    state: &GrpcLoadState,
    tasks: &mut JoinSet<Result<(), LoadError>>,
) -> Result<f64, LoadError> {
    let mut warm = None;
    for wait_ms in [load.warm_up_ms, load.ms] {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
            // A task that ends before the load is over has failed.
            Some(ended) = tasks.join_next() => ended??,
        }
        let now = (Instant::now(), state.numbers.load(Relaxed));
        if let Some((from, before)) = warm.replace(now) {
            return Ok((now.1 - before) as f64 / (now.0 - from).as_secs_f64());
        }
    }
    Err("internal error: nothing was measured".into())
}

fn next_request(key: u64) -> NextRequest {
    NextRequest {
        key_kind: Some(next_request::KeyKind::Uid(key * 9_973)),
        ..NextRequest::default()
    }
}

fn txn_request(key: u64) -> TxnRequest {
    let key = key.to_be_bytes().to_vec();
    let operations = [
        EtcdOperation::Put(PutRequest { key: key.clone() }),
        EtcdOperation::Range(RangeRequest { key }),
    ];
    TxnRequest {
        success: operations
            .map(|operation| RequestOp {
                operation: Some(operation),
            })
            .into(),
    }
}

fn key_version(response: &TxnResponse) -> u64 {
    let ranges = response.responses.iter().filter_map(|r| r.range.as_ref());
    let kv = ranges.filter_map(|range| range.kvs.first()).next();
    kv.map_or(0, |kv| kv.version as u64)
}

fn get_seq_request(key: u64) -> GetSeqRequest {
    GetSeqRequest {
        key: format!("user{key}"),
        count: 1,
    }
}

/// Makes unary calls, one after the other, for a key that no other task uses.
async fn make_calls<Q, R>(
    state: Arc<GrpcLoadState>,
    channel: Channel,
    path: &'static str,
    request: Q,
    number_of: fn(&R) -> u64,
) -> Result<(), LoadError>
where
    Q: Message + Clone + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel);
    let mut last = None;
    while !state.is_over.load(Relaxed) {
        grpc.ready().await?;
        let request = Request::new(request.clone());
        let path = PathAndQuery::from_static(path);
        let codec: ProstCodec<Q, R> = ProstCodec::default();
        let response = grpc.unary(request, path, codec).await?;
        let number = Some(number_of(response.get_ref()));
        if number <= last {
            return Err(format!("{number:?} came after {last:?}").into());
        }
        last = number;
        state.numbers.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Sends frames on one baseline stream. Each frame reuses the memory of a response.
async fn send_frames(
    state: Arc<GrpcLoadState>,
    channel: Channel,
    per_frame: u32,
) -> Result<(), LoadError> {
    let mut rng = SmallRng::from_rng(&mut rand::rng());
    let (sender, frames) = mpsc::channel(FRAMES_IN_FLIGHT);
    for _ in 0..FRAMES_IN_FLIGHT {
        let uids = (0..per_frame).map(|_| rng.random_range(0..UIDS));
        let values = uids.collect();
        sender.send(NumberFrame { values }).await?;
    }
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let request = Request::new(ReceiverStream::new(frames));
    let codec: ProstCodec<NumberFrame, NumberFrame> = ProstCodec::default();
    let responses = grpc.streaming(request, PathAndQuery::from_static(STREAM_PATH), codec);
    let mut responses = responses.await?.into_inner();
    let mut last = 0;
    while !state.is_over.load(Relaxed) {
        let mut frame = responses.message().await?.ok_or("the stream ended")?;
        let first = frame.values.first().copied().unwrap_or_default();
        if first <= last {
            return Err(format!("{first} came after {last}").into());
        }
        last = first;
        state.numbers.fetch_add(u64::from(per_frame), Relaxed);
        frame.values.fill_with(|| rng.random_range(0..UIDS));
        sender.send(frame).await?;
    }
    Ok(())
}
