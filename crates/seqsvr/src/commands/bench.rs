//! `seqsvr bench`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use seqsvr_check::Recorder;
use seqsvr_core::namespace::{DEFAULT, KEYS};
use seqsvr_proto::cluster_tag::ClusterTag;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::cli_client::CliClient;
use crate::bench::caller::{CallClient, CallWorker};
use crate::bench::checker::{CallItems, CallRecorder, RunState};
use crate::bench::effort::ClusterCounters;
use crate::bench::figures::RunStats;
use crate::bench::keys::KeySet;
use crate::bench::pace::Pacer;
use crate::bench::piper::PipeWorker;
use crate::bench::plain::DirectClient;
use crate::bench::report::{BenchReport, format_grouped, format_nanos};
use crate::bench::verify::Verifier;
use crate::cli;
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};

/// Default number of items of a NextMany or a frame.
const DEFAULT_BATCH: u32 = 100;
/// Number of statistics that callers share. Several ones keep waits for their locks rare; each
/// takes 200 KiB.
const STATS_SHARDS: usize = 16;

/// Callers that share a task, so that all callers that one frame answers continue together. With
/// one task for each caller, 1,024 single calls in flight on four connections had a third less
/// throughput.
const CALLERS_PER_TASK: usize = 16;
/// Maximum time to discard calls that were in flight at the end of the warm-up.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(20);

pub(crate) async fn run(args: cli::BenchArgs) -> anyhow::Result<()> {
    let batch = batch_size(&args)?;
    let namespaces = match (args.namespaces.is_empty(), args.key_bytes) {
        (false, _) => args.namespaces.clone(),
        (true, None) => vec![DEFAULT.to_owned()],
        (true, Some(_)) => vec![KEYS.to_owned()],
    };
    let key_count =
        u32::try_from(namespaces.len() as u64 * u64::from(args.keys)).map_err(|_| {
            BadInput("more than 2^32 keys in all; use fewer keys or fewer namespaces".into())
        })?;
    let clients: Vec<CliClient> = (0..args.connections)
        .map(|_| CliClient::connect(&args.client))
        .collect::<Result<_, _>>()?;
    let admin = clients[0].sdk.admin();
    let namespace_list = admin.list_namespaces().await?;
    if let Some(unknown) = namespaces.iter().find(|n| {
        namespace_list
            .iter()
            .all(|namespace| namespace.spec.name != **n)
    }) {
        let names: Vec<&str> = namespace_list
            .iter()
            .map(|namespace| namespace.spec.name.as_str())
            .collect();
        let text = format!(
            "there is no namespace {unknown:?}; there are {}; create it with `seqsvr namespace create`",
            names.join(", ")
        );
        return Err(BadInput(text).into());
    }
    let strides = namespace_list.iter().map(|namespace| {
        (
            namespace.spec.name.clone(),
            namespace.spec.progression.stride,
        )
    });
    // Callers without the SDK check that the answers are from this cluster.
    let cluster = ClusterTag::of(clients[0].sdk.routes().await?.cluster());
    let worker_clients = connect_clients(&args, &clients, strides.collect(), cluster)?;
    let recorder = args.history.as_ref().map(Recorder::create).transpose()?;
    let run = Arc::new(RunState {
        mode: args.mode,
        batch,
        count: args.count,
        keys: KeySet::new(args.keys, args.distribution, args.key_bytes, namespaces),
        pacer: Pacer::new(args.warm_up + args.duration, args.rate),
        verifier: Verifier::new(key_count, args.in_flight as usize),
        violations: Mutex::default(),
        cluster_mismatch: Mutex::default(),
        origin: Instant::now(),
    });
    let stats = (0..STATS_SHARDS).map(|_| Mutex::new(RunStats::new()));
    let stats: Arc<Vec<_>> = Arc::new(stats.collect());
    let call_recorder = || CallRecorder {
        run: run.clone(),
        stats: stats.clone(),
        recorder: recorder.clone(),
    };
    let rng = || SmallRng::from_rng(&mut rand::rng());
    let mut callers = JoinSet::new();
    let mut first = 0;
    for (n, worker_client) in (0..).zip(worker_clients) {
        let share =
            args.in_flight / args.connections + u32::from(n < args.in_flight % args.connections);
        let share = first..first + share as usize;
        first = share.end;
        match worker_client {
            WorkerClient::Pipe(client) => {
                let worker =
                    PipeWorker::new(call_recorder(), client, rng(), share.start, share.len());
                callers.spawn(worker.run());
            }
            WorkerClient::Calls(client) => {
                let workers = share.map(|caller| CallWorker {
                    recorder: call_recorder(),
                    client: client.clone(),
                    caller,
                    rng: rng(),
                    items: CallItems::default(),
                });
                let mut workers = workers.map(CallWorker::run).peekable();
                while workers.peek().is_some() {
                    let mut task_workers: FuturesUnordered<_> =
                        workers.by_ref().take(CALLERS_PER_TASK).collect();
                    callers.spawn(async move {
                        while let Some(ended) = task_workers.next().await {
                            ended?;
                        }
                        Ok(())
                    });
                }
            }
        }
    }
    let report = measure_run(&args, &run, &stats, &admin, &mut callers).await?;
    drop(clients);
    if let Some(recorder) = recorder {
        let calls = recorder.finish()?;
        log::log_unfiltered(format_args!("{} items recorded", format_grouped(calls)));
    }
    let violations = run.violations.lock();
    if !violations.is_empty() {
        let lines = violations.join("\n  ");
        bail!("received numbers are wrong, so nothing was measured:\n  {lines}");
    }
    if let Some(error) = run.cluster_mismatch.lock().take() {
        return Err(error.into());
    }
    if report.stats.calls == 0 {
        let errors = report.stats.errors.into_values().next();
        let why = errors.map_or_else(String::new, |failures| {
            format!(": {}", failures.first_message)
        });
        bail!("no call was answered{why}");
    }
    match args.json {
        true => stdout::print_line(report.to_json(&args, batch))?,
        false => report.print(&args, batch)?,
    }
    Ok(())
}

/// How the callers of a connection send their calls.
enum WorkerClient {
    /// Each caller sends its own calls.
    Calls(CallClient),
    /// One Pipe carries the calls of all callers as frames.
    Pipe(DirectClient),
}

/// Creates one client for each connection.
fn connect_clients(
    args: &cli::BenchArgs,
    clients: &[CliClient],
    strides: HashMap<String, u32>,
    cluster: ClusterTag,
) -> anyhow::Result<Vec<WorkerClient>> {
    if args.unary && args.mode == cli::CallMode::Pipe {
        return Err(BadInput("--mode pipe sends frames; remove --unary".into()).into());
    }
    let (servers, strides) = (args.client.addresses(), Arc::new(strides));
    let connect_direct =
        |server: &str| DirectClient::new(server, strides.clone(), args.client.timeout, cluster);
    let pairs = clients.iter().zip(servers.iter().cycle());
    let connect = |(client, server): (&CliClient, &&str)| match (args.mode, args.unary) {
        (cli::CallMode::Pipe, _) => Ok(WorkerClient::Pipe(connect_direct(server)?)),
        (_, true) => Ok(WorkerClient::Calls(CallClient::Unary(connect_direct(
            server,
        )?))),
        (_, false) => Ok(WorkerClient::Calls(CallClient::Sdk(client.sdk.clone()))),
    };
    pairs.map(connect).collect()
}

/// Returns the number of items of a call.
fn batch_size(args: &cli::BenchArgs) -> Result<u32, BadInput> {
    match (args.mode, args.batch) {
        (cli::CallMode::Next, Some(n)) if n > 1 => Err(BadInput(
            "--batch is for --mode next-many, pipe or current; --count takes several numbers of one key"
                .into(),
        )),
        (cli::CallMode::NextMany | cli::CallMode::Pipe, batch) => Ok(batch.unwrap_or(DEFAULT_BATCH)),
        (_, batch) => Ok(batch.unwrap_or(1)),
    }
}

/// Waits until the callers end and prints a progress line every second. Returns the result of the
/// time after the warm-up.
async fn measure_run(
    args: &cli::BenchArgs,
    run: &RunState,
    stats: &[Mutex<RunStats>],
    admin: &seqsvr_client::Admin,
    callers: &mut JoinSet<Result<(), seqsvr_check::Error>>,
) -> anyhow::Result<BenchReport> {
    let began = Instant::now();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut total = RunStats::new();
    let mut measured_from = began;
    let mut counters_before = ClusterCounters::read(admin).await?;
    let mut is_warm = args.warm_up.is_zero();
    let mut last_progress = began;
    loop {
        let warmed_up = tokio::time::sleep_until(began + args.warm_up);
        tokio::select! {
            () = warmed_up, if !is_warm => {
                RunStats::take_sum(stats);
                counters_before = ClusterCounters::read(admin).await?;
                // Calls in flight at the end of the warm-up belong to neither part.
                discard_in_flight(stats, args.in_flight.into()).await;
                measured_from = Instant::now();
                last_progress = measured_from;
                ticks.reset();
                is_warm = true;
            }
            _ = ticks.tick() => {
                let interval_stats = RunStats::take_sum(stats);
                print_progress(began, last_progress, &interval_stats, !is_warm);
                last_progress = Instant::now();
                if is_warm {
                    total.add_stats(&interval_stats);
                }
            }
            ended = callers.join_next() => match ended {
                Some(Ok(ended)) => ended?,
                Some(Err(error)) => bail!("a worker failed: {error}"),
                None => break,
            }
        }
    }
    let measured = measured_from.elapsed();
    total.add_stats(&RunStats::take_sum(stats));
    let counters = ClusterCounters::read(admin)
        .await?
        .increase_since(counters_before);
    if run.pacer.is_stopped() {
        log::log_unfiltered(format_args!("ended early"));
    }
    Ok(BenchReport {
        measured,
        stats: total,
        counters,
    })
}

/// Discards statistics until as many calls were answered as are in flight at a time, or until a
/// short time has passed.
async fn discard_in_flight(stats: &[Mutex<RunStats>], in_flight: u64) {
    let (began, mut answered) = (Instant::now(), 0);
    while answered < in_flight && began.elapsed() < SETTLE_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(1)).await;
        answered += RunStats::take_sum(stats).calls;
    }
}

fn print_progress(began: Instant, last_progress: Instant, stats: &RunStats, is_warm_up: bool) {
    let seconds = last_progress.elapsed().as_secs_f64();
    log::log_unfiltered(format_args!(
        "{:>4.0} s  {} calls a second  {} numbers a second  p99 {}  {} failed{}",
        began.elapsed().as_secs_f64(),
        format_grouped((stats.calls as f64 / seconds) as u64),
        format_grouped((stats.numbers as f64 / seconds) as u64),
        format_nanos(stats.latency.value_at_percentile(99.0)),
        format_grouped(stats.failure_count()),
        if is_warm_up { "  (warm-up)" } else { "" }
    ));
}
