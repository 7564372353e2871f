//! The generator: unary calls of one kind, or frames of the bare stream, as many in flight as
//! asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use prost::Message;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
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
    GetSeqRequest, GetSeqResponse, Numbers, Operation, PutRequest, RangeRequest, RequestOp,
    TxnRequest, TxnResponse,
};
use super::grpc_server::{NEXT, STREAM};

/// Uids that frames of the bare stream ask for.
const UIDS: u64 = 10_000_000;
/// Frames under way on each bare stream.
const FRAMES: usize = 16;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Unary calls of the bare service.
    Bare,
    /// Frames of the bare service, `--per-frame` numbers each.
    Stream,
    /// `seqsvr.v1.Sequence/Next`, as any gRPC client calls it.
    Seqsvr,
    /// A transaction of etcd that writes a key and reads how often it was written.
    Etcd,
    /// `tsoracle.v1.TsoService/GetSeq`.
    Tsoracle,
}

/// One run.
#[derive(Args, Clone, Debug)]
pub struct Load {
    /// What is asked for.
    #[arg(long, value_enum)]
    pub what: What,
    /// `host:port` of the server.
    #[arg(long)]
    pub to: String,
    /// Connections, each with one stream if it is frames.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Unary calls in flight.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub in_flight: u32,
    /// Numbers of a frame.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub per_frame: u32,
    /// How long it is measured, in ms.
    #[arg(long, default_value_t = 3_000)]
    pub ms: u64,
    /// Time before that which does not count, in ms.
    #[arg(long, default_value_t = 500)]
    pub warm_up_ms: u64,
}

/// What all tasks of a run share.
#[derive(Default)]
struct Run {
    numbers: AtomicU64,
    over: AtomicBool,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs it and gives numbers a second.
///
/// # Errors
/// A call failed, or a number of one key was not greater than the one before.
pub async fn load(load: Load) -> Result<f64, Failure> {
    let run = Arc::new(Run::default());
    let mut tasks: JoinSet<Result<(), Failure>> = JoinSet::new();
    let mut channels = Vec::new();
    for _ in 0..load.connections {
        let endpoint = Endpoint::from_shared(format!("http://{}", load.to))?.tcp_nodelay(true);
        channels.push(endpoint.connect().await?);
    }
    match load.what {
        What::Stream => {
            for channel in channels {
                tasks.spawn(frames(run.clone(), channel, load.per_frame));
            }
        }
        what => {
            let each = channels.into_iter().cycle().zip(0..load.in_flight);
            for (channel, n) in each {
                let (run, key) = (run.clone(), u64::from(n));
                match what {
                    What::Etcd => tasks.spawn(calls(run, channel, ETCD, txn(key), version)),
                    What::Tsoracle => {
                        tasks.spawn(calls(run, channel, TSORACLE, get_seq(key), start))
                    }
                    What::Seqsvr => tasks.spawn(calls(run, channel, SEQSVR, next(key), first)),
                    What::Bare | What::Stream => {
                        tasks.spawn(calls(run, channel, NEXT, next(key), first))
                    }
                };
            }
        }
    }
    let rate = measure(&load, &run, &mut tasks).await?;
    run.over.store(true, Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(rate)
}

/// Numbers a second after the warm-up.
async fn measure(
    load: &Load,
    run: &Run,
    tasks: &mut JoinSet<Result<(), Failure>>,
) -> Result<f64, Failure> {
    let mut warm = None;
    for wait in [load.warm_up_ms, load.ms] {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait)) => {}
            // None ends before it is told to, unless it failed.
            Some(ended) = tasks.join_next() => ended??,
        }
        let now = (Instant::now(), run.numbers.load(Relaxed));
        if let Some((from, before)) = warm.replace(now) {
            return Ok((now.1 - before) as f64 / (now.0 - from).as_secs_f64());
        }
    }
    Err("nothing was measured".into())
}

const SEQSVR: &str = "/seqsvr.v1.Sequence/Next";
const ETCD: &str = "/etcdserverpb.KV/Txn";
const TSORACLE: &str = "/tsoracle.v1.TsoService/GetSeq";

fn next(key: u64) -> NextRequest {
    NextRequest {
        key_kind: Some(next_request::KeyKind::Uid(key * 9_973)),
        ..NextRequest::default()
    }
}

fn first(response: &NextResponse) -> u64 {
    response.first
}

fn txn(key: u64) -> TxnRequest {
    let key = key.to_be_bytes().to_vec();
    let operations = [
        Operation::Put(PutRequest { key: key.clone() }),
        Operation::Range(RangeRequest { key }),
    ];
    TxnRequest {
        success: operations
            .map(|operation| RequestOp {
                operation: Some(operation),
            })
            .into(),
    }
}

fn version(response: &TxnResponse) -> u64 {
    let ranges = response.responses.iter().filter_map(|r| r.range.as_ref());
    let kv = ranges.filter_map(|range| range.kvs.first()).next();
    kv.map_or(0, |kv| kv.version as u64)
}

fn get_seq(key: u64) -> GetSeqRequest {
    GetSeqRequest {
        key: format!("user{key}"),
        count: 1,
    }
}

fn start(response: &GetSeqResponse) -> u64 {
    response.start
}

/// One unary call after the other, all for one key that nobody else asks for.
async fn calls<Q, R>(
    run: Arc<Run>,
    channel: Channel,
    path: &'static str,
    request: Q,
    number: fn(&R) -> u64,
) -> Result<(), Failure>
where
    Q: Message + Clone + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel);
    let mut last = None;
    while !run.over.load(Relaxed) {
        grpc.ready().await?;
        let request = Request::new(request.clone());
        let path = PathAndQuery::from_static(path);
        let codec: ProstCodec<Q, R> = ProstCodec::default();
        let response = grpc.unary(request, path, codec).await?;
        let got = Some(number(response.get_ref()));
        if got <= last {
            return Err(format!("{got:?} came after {last:?}").into());
        }
        last = got;
        run.numbers.fetch_add(1, Relaxed);
    }
    Ok(())
}

/// Frames of one bare stream, each made of the last answer's memory.
async fn frames(run: Arc<Run>, channel: Channel, per_frame: u32) -> Result<(), Failure> {
    let mut rng = SmallRng::from_rng(&mut rand::rng());
    let (sender, frames) = mpsc::channel(FRAMES);
    for _ in 0..FRAMES {
        let of = (0..per_frame).map(|_| rng.random_range(0..UIDS)).collect();
        sender.send(Numbers { of }).await?;
    }
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let request = Request::new(ReceiverStream::new(frames));
    let codec: ProstCodec<Numbers, Numbers> = ProstCodec::default();
    let answers = grpc.streaming(request, PathAndQuery::from_static(STREAM), codec);
    let mut answers = answers.await?.into_inner();
    let mut last = 0;
    while !run.over.load(Relaxed) {
        let mut frame = answers.message().await?.ok_or("the stream ended")?;
        let first = frame.of.first().copied().unwrap_or_default();
        if first <= last {
            return Err(format!("{first} came after {last}").into());
        }
        last = first;
        run.numbers.fetch_add(u64::from(per_frame), Relaxed);
        frame.of.fill_with(|| rng.random_range(0..UIDS));
        sender.send(frame).await?;
    }
    Ok(())
}
