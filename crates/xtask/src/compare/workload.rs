//! What a side of a row does: how it is asked, and by which generator.

use std::process::Command;
use std::time::{Duration, Instant};

use seqsvr_test_support::process;
use serde_json::Value;

use super::systems::{output, redis, wrk::gets};
use super::testbed::Rig;
use super::{Failure, disk_stats};

/// Connections of `seqsvr bench`.
const CONNECTIONS: &str = "4";

/// One kind of work. Whatever asks for numbers of uids or keys takes one number an item.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// `seqsvr bench` with these arguments.
    Bench(&'static str),
    /// The same at half of the calls a second that it reaches at its fastest.
    Half(&'static str),
    /// Plain unary calls of a gRPC service.
    Unary { of: Service, in_flight: u32 },
    /// Frames of the bare stream.
    Frames { numbers: u32 },
    /// INCR, by redis-benchmark.
    Incr {
        of: Speaker,
        clients: u32,
        pipeline: u32,
    },
    /// `GET /v1/next`, by wrk.
    Get { of: Server, connections: u32 },
    /// `select nextval`, by pgbench.
    Nextval { clients: u32 },
    /// `update … returning` of a user's row, by pgbench.
    UpdateRow { clients: u32 },
}

/// A gRPC service that takes unary calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Bare,
    Seqsvr,
    Etcd,
    Tsoracle,
}

/// Who serves HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Seqsvr,
    /// axum that adds in memory.
    Bare,
}

/// Who speaks Redis's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Speaker {
    Seqsvr,
    /// A loop over sockets that adds in memory.
    Bare,
    /// Valkey, one thread, without persistence.
    Valkey,
    /// Valkey with two threads that read and write, without persistence.
    ValkeyThreads,
    /// Redis without persistence.
    Redis,
    /// Redis with an append-only file that is synced before each answer.
    RedisSynced,
}

/// What one run of a work came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Numbers a second.
    pub(super) rate: f64,
    /// Flushes of the disk a second, over the whole run.
    pub(super) flushes: Option<f64>,
    /// Resident bytes of the AllocSvr afterwards, if it was asked.
    pub(super) memory: Option<u64>,
    /// What `seqsvr bench` measured beside.
    pub(super) bench: Option<Value>,
}

impl Work {
    /// Has whoever counts keys know them before they are measured: what is new to a table is no
    /// steady load.
    pub(super) async fn warm_up(self, rig: &mut Rig) -> Result<(), Failure> {
        if let Work::Incr { of, .. } = self {
            rig.start(self).await?;
            redis::touch(&rig.speaker(of)?)?;
        }
        Ok(())
    }

    /// Does it once.
    pub(super) async fn run(self, rig: &mut Rig) -> Result<Sample, Failure> {
        rig.start(self).await?;
        let (before, began) = (disk_stats::flushes(&std::env::temp_dir()), Instant::now());
        let mut sample = match self {
            Work::Bench(args) => bench(rig, args, None, rig.time)?,
            Work::Half(args) => {
                let peak = match rig.peaks.get(args) {
                    Some(peak) => *peak,
                    None => {
                        let sample = bench(rig, args, None, rig.time)?;
                        let peak = figure(&sample, "/calls_per_second")?;
                        rig.peaks.insert(args, peak);
                        peak
                    }
                };
                bench(rig, args, Some(peak / 2.0), rig.time)?
            }
            Work::Unary { of, in_flight } => {
                let (what, to) = match of {
                    Service::Bare => ("bare", rig.bare()?),
                    Service::Seqsvr => ("seqsvr", rig.seqsvr()?),
                    Service::Etcd => ("etcd", rig.etcd()?),
                    Service::Tsoracle => ("tsoracle", rig.tsoracle()?),
                };
                let in_flight = in_flight.to_string();
                load(
                    rig,
                    &["--what", what, "--to", &to, "--in-flight", &in_flight],
                )?
            }
            Work::Frames { numbers } => {
                let (to, numbers) = (rig.bare()?, numbers.to_string());
                load(
                    rig,
                    &["--what", "stream", "--to", &to, "--per-frame", &numbers],
                )?
            }
            Work::Incr {
                of,
                clients,
                pipeline,
            } => rate(redis::incr(&rig.speaker(of)?, clients, pipeline, rig.time)?),
            Work::Get { of, connections } => rate(gets(&rig.http(of)?, connections, rig.time)?),
            Work::Nextval { clients } => rate(rig.postgres()?.nextval(clients, rig.time)?),
            Work::UpdateRow { clients } => rate(rig.postgres()?.update(clients, rig.time)?),
        };
        let seconds = began.elapsed().as_secs_f64();
        let after = disk_stats::flushes(&std::env::temp_dir());
        sample.flushes = before.zip(after).map(|(b, a)| (a - b) as f64 / seconds);
        Ok(sample)
    }
}

fn rate(rate: f64) -> Sample {
    Sample {
        rate,
        ..Sample::default()
    }
}

/// A figure of what `seqsvr bench` said.
pub(super) fn figure(sample: &Sample, at: &str) -> Result<f64, Failure> {
    let figure = sample.bench.as_ref().and_then(|b| b.pointer(at)?.as_f64());
    figure.ok_or_else(|| Failure::Wrong(format!("bench does not tell {at}")))
}

/// Runs `seqsvr bench`, which verifies what it receives; calls that failed are a failure.
pub(super) fn bench(
    rig: &Rig,
    args: &str,
    calls: Option<f64>,
    time: Duration,
) -> Result<Sample, Failure> {
    process::select_binary(rig.binary);
    let mut command = Command::new(process::release_binary());
    command
        .args(["bench", "--json", "--server", &rig.seqsvr()?])
        .args(["--connections", CONNECTIONS])
        .args(["--duration", &format!("{}ms", time.as_millis())])
        .args(args.split_whitespace());
    if let Some(calls) = calls {
        command.args(["--rate", &format!("{:.0}", calls.max(1.0))]);
    }
    let said = output(&mut command)?;
    let bench: Value = serde_json::from_str(&said).map_err(Failure::wrong)?;
    if let Some(errors) = bench["errors"]
        .as_object()
        .filter(|errors| !errors.is_empty())
    {
        return Err(Failure::Wrong(format!("calls failed: {errors:?}")));
    }
    let mut sample = Sample {
        bench: Some(bench),
        memory: Some(rig.memory()?),
        ..Sample::default()
    };
    sample.rate = figure(&sample, "/numbers_per_second")?;
    Ok(sample)
}

/// Runs the generator of the bare loops, in a process of its own.
fn load(rig: &Rig, args: &[&str]) -> Result<Sample, Failure> {
    let this = std::env::current_exe().map_err(Failure::wrong)?;
    let said = output(
        Command::new(this)
            .arg("bare-load")
            .args(args)
            .args(["--ms", &rig.time.as_millis().to_string()]),
    )?;
    said.trim().parse().map(rate).map_err(Failure::wrong)
}
