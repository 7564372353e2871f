//! Runs the workers of a load and measures them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use seqsvr_check::HistoryRecorder;
use seqsvr_client::{Client, FamilyHandle};
use seqsvr_core::ids::ClusterId;
use seqsvr_core::namespace::Namespace;
use seqsvr_proto::cluster_tag::ClusterTag;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::call_recorder::CallRecorder;
use crate::cluster_counters::ClusterCounters;
use crate::key_set::KeySet;
use crate::pacer::Pacer;
use crate::report::{BenchReport, RunMeasurement, format_grouped, format_nanos};
use crate::run_state::{CallItems, RunState};
use crate::settings::{BenchSettings, CallMode, InvalidSettings, KeyDistribution};
use crate::stats::RunStats;
use crate::verifier::Verifier;
use crate::worker::call_worker::{CallClient, CallWorker};
use crate::worker::direct_client::DirectClient;
use crate::worker::id_worker::IdWorker;
use crate::worker::pipe_worker::PipeWorker;

/// Number of statistics that callers share. Several ones keep waits for their locks rare; each
/// takes 200 KiB.
const STATS_SHARDS: usize = 16;

/// Callers that share a task, so that all callers that one frame answers continue together. With
/// one task for each caller, 1,024 single calls in flight on four connections had a third less
/// throughput.
const CALLERS_PER_TASK: usize = 16;
/// Maximum time to discard calls that were in flight at the end of the warm-up.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(20);

/// Prints one line of progress.
pub type ProgressPrinter = fn(String);

/// Puts load on the cluster of these clients, one for each connection, and verifies every answer.
/// Returns the result of the time after the warm-up.
///
/// # Errors
/// The settings are invalid, no call was answered, a number was wrong, or the history cannot be
/// written.
///
/// # Panics
/// There is no client.
pub async fn run_bench(
    settings: BenchSettings,
    clients: Vec<Client>,
    print: ProgressPrinter,
) -> anyhow::Result<BenchReport> {
    let connections = clients.len() as u32;
    let batch = settings.batch_size()?;
    let cluster = require_one_cluster(&clients).await?;
    // Callers without the SDK check that the answers are from this cluster.
    let cluster = ClusterTag::from_cluster_id(cluster);
    let (keys, worker_clients) = match settings.mode {
        CallMode::Ids => connect_family(&settings, &clients).await?,
        _ => connect_namespaces(&settings, &clients, cluster).await?,
    };
    let recorder = settings
        .history
        .as_ref()
        .map(HistoryRecorder::create)
        .transpose()?;
    // Before the first call: a process that does not answer must not take time of the run.
    let counters = ClusterCounters::read(&clients[0], &[]).await?;
    let run = Arc::new(RunState {
        mode: settings.mode,
        batch,
        count: settings.count,
        verifier: Verifier::new(keys.total(), settings.in_flight as usize),
        keys,
        pacer: Pacer::new(settings.warm_up + settings.duration, settings.rate),
        violations: Mutex::default(),
        cluster_mismatch: Mutex::default(),
        origin: Instant::now(),
    });
    let stats = (0..STATS_SHARDS).map(|_| Mutex::new(RunStats::new()));
    let stats: Arc<Vec<_>> = Arc::new(stats.collect());
    let new_recorder = || CallRecorder {
        run: run.clone(),
        stats: stats.clone(),
        recorder: recorder.clone(),
    };
    let mut callers = spawn_workers(settings.in_flight, worker_clients, new_recorder);
    let load = (&*run, &stats[..], &mut callers);
    let measurement = measure_run(&settings, load, &clients[0], counters, print).await?;
    if let Some(recorder) = recorder {
        let calls = recorder.finish()?;
        print(format!("{} items recorded", format_grouped(calls)));
    }
    let violations = run.violations.lock();
    if !violations.is_empty() {
        let lines = violations.join("\n  ");
        bail!("received numbers are wrong, so nothing was measured:\n  {lines}");
    }
    if let Some(error) = run.cluster_mismatch.lock().take() {
        return Err(error.into());
    }
    if measurement.stats.calls == 0 {
        let errors = measurement.stats.errors.values().next();
        let why = errors.map_or_else(String::new, |failures| {
            format!(": {}", failures.first_message)
        });
        bail!("no call was answered{why}");
    }
    Ok(BenchReport {
        settings,
        batch,
        connections,
        measurement,
    })
}

/// Finds the namespaces of a run, and creates its own one if it names none. Returns their keys and
/// the client of each connection.
async fn connect_namespaces(
    settings: &BenchSettings,
    clients: &[Client],
    cluster: ClusterTag,
) -> anyhow::Result<(KeySet, Vec<WorkerClient>)> {
    let own_namespace = settings.own_namespace();
    let namespaces = match settings.namespaces.is_empty() {
        true => vec![own_namespace.name.clone()],
        false => settings.namespaces.clone(),
    };
    if namespaces.len() as u64 * u64::from(settings.keys) > u64::from(u32::MAX) {
        let text = "more than 2^32 keys in all; use fewer keys or fewer namespaces";
        return Err(InvalidSettings(text.into()).into());
    }
    let admin = clients[0].admin();
    let mut namespace_list = admin.list_namespaces().await?;
    match require_namespaces(&namespaces, &namespace_list) {
        Err(_) if settings.namespaces.is_empty() => {
            namespace_list.push(admin.create_namespace(&own_namespace).await?);
        }
        required => required?,
    }
    let strides = namespace_list.iter().map(|namespace| {
        (
            namespace.spec.name.clone(),
            namespace.spec.progression.stride,
        )
    });
    let worker_clients =
        connect_clients(settings, clients, &namespaces, strides.collect(), cluster)?;
    let (distribution, key_bytes) = (settings.distribution, settings.key_bytes);
    let keys = KeySet::new(settings.keys, distribution, key_bytes, namespaces);
    Ok((keys, worker_clients))
}

/// Finds the family of a run. Returns its workers, as the keys whose numbers are positions, and the
/// client of each connection.
async fn connect_family(
    settings: &BenchSettings,
    clients: &[Client],
) -> anyhow::Result<(KeySet, Vec<WorkerClient>)> {
    let name = settings.family_name();
    let families = clients.iter().map(|client| client.family(name));
    let families = try_join_all(families).await?;
    let workers = families[0]
        .scheme()
        .codec()
        .max_parts()
        .worker
        .saturating_add(1);
    let names = vec![name.to_owned()];
    let keys = KeySet::new(workers, KeyDistribution::Uniform, None, names);
    let families = families.into_iter().map(Arc::new);
    Ok((keys, families.map(WorkerClient::Ids).collect()))
}

/// Returns the cluster of all clients.
///
/// Invariant: a run measures and verifies one cluster. Schedule that breaks it: some of the servers
/// were silent when one client decided its cluster, and others when the next client did. Two
/// clusters of one backup give the same numbers, and the run would report them as given twice.
///
/// # Errors
/// No server answered, or the clients belong to different clusters.
async fn require_one_cluster(clients: &[Client]) -> anyhow::Result<ClusterId> {
    let tables = try_join_all(clients.iter().map(Client::routes)).await?;
    let clusters: Vec<ClusterId> = tables.iter().map(|table| table.cluster()).collect();
    require_same_cluster(&clusters)?;
    Ok(clusters[0])
}

fn require_same_cluster(clusters: &[ClusterId]) -> Result<(), InvalidSettings> {
    if clusters.iter().any(|cluster| *cluster != clusters[0]) {
        let lines = (1..).zip(clusters);
        let lines = lines.map(|(n, cluster)| format!("connection {n} -> cluster {cluster}"));
        let lines = Vec::from_iter(lines).join(", ");
        return Err(InvalidSettings(format!(
            "the connections belong to different clusters, which may give the same numbers ({lines}); give the addresses of one cluster"
        )));
    }
    Ok(())
}

/// Rejects namespaces that the cluster does not have.
fn require_namespaces(
    namespaces: &[String],
    existing: &[Namespace],
) -> Result<(), InvalidSettings> {
    let has_name = |name: &String| existing.iter().any(|n| n.spec.name == *name);
    let Some(unknown) = namespaces.iter().find(|name| !has_name(name)) else {
        return Ok(());
    };
    let names: Vec<&str> = existing.iter().map(|n| n.spec.name.as_str()).collect();
    Err(InvalidSettings(format!(
        "there is no namespace {unknown:?}; there are {}; create it with `seqsvr namespace create`",
        names.join(", ")
    )))
}

/// Starts the callers, `in_flight` in all, and spreads them over the connections.
fn spawn_workers(
    in_flight: u32,
    clients: Vec<WorkerClient>,
    new_recorder: impl Fn() -> CallRecorder,
) -> JoinSet<Result<(), seqsvr_check::Error>> {
    let connections = clients.len() as u32;
    let rng = || SmallRng::from_rng(&mut rand::rng());
    let mut callers = JoinSet::new();
    let mut first = 0;
    for (n, worker_client) in (0..).zip(clients) {
        let share = in_flight / connections + u32::from(n < in_flight % connections);
        let share = first..first + share as usize;
        first = share.end;
        match worker_client {
            WorkerClient::Pipe(client) => {
                let worker =
                    PipeWorker::new(new_recorder(), client, rng(), share.start, share.len());
                callers.spawn(worker.run());
            }
            WorkerClient::Calls(client) => {
                let workers = share.map(|caller| CallWorker {
                    recorder: new_recorder(),
                    client: client.clone(),
                    caller,
                    rng: rng(),
                    items: CallItems::default(),
                });
                spawn_together(&mut callers, workers.map(CallWorker::run));
            }
            WorkerClient::Ids(family) => {
                let workers = share.map(|caller| IdWorker {
                    recorder: new_recorder(),
                    family: family.clone(),
                    caller,
                    items: CallItems::default(),
                });
                spawn_together(&mut callers, workers.map(IdWorker::run));
            }
        }
    }
    callers
}

/// Starts callers, several in one task.
fn spawn_together(
    callers: &mut JoinSet<Result<(), seqsvr_check::Error>>,
    workers: impl Iterator<
        Item = impl Future<Output = Result<(), seqsvr_check::Error>> + Send + 'static,
    >,
) {
    let mut workers = workers.peekable();
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

/// Way in which the callers of a connection send their calls.
enum WorkerClient {
    /// Each caller sends its own calls.
    Calls(CallClient),
    /// Each caller takes ids.
    Ids(Arc<FamilyHandle>),
    /// One Pipe carries the calls of all callers as frames.
    Pipe(DirectClient),
}

/// Creates one client for each connection.
fn connect_clients(
    settings: &BenchSettings,
    clients: &[Client],
    namespaces: &[String],
    strides: HashMap<String, u32>,
    cluster: ClusterTag,
) -> anyhow::Result<Vec<WorkerClient>> {
    if settings.unary && settings.mode == CallMode::Pipe {
        return Err(InvalidSettings("--mode pipe sends frames; remove --unary".into()).into());
    }
    let (servers, strides) = (&settings.servers, Arc::new(strides));
    let connect_direct = |server: &str| {
        let (channels, timeout) = (&settings.channels, settings.timeout);
        DirectClient::new(server, channels, strides.clone(), timeout, cluster)
    };
    let pairs = clients.iter().zip(servers.iter().cycle());
    let connect = |(client, server): (&Client, &String)| match (settings.mode, settings.unary) {
        (CallMode::Pipe, _) => Ok(WorkerClient::Pipe(connect_direct(server)?)),
        (_, true) => Ok(WorkerClient::Calls(CallClient::Unary(connect_direct(
            server,
        )?))),
        (_, false) => {
            let handles = namespaces.iter().map(|name| client.namespace(name));
            Ok(WorkerClient::Calls(CallClient::Sdk(handles.collect())))
        }
    };
    pairs.map(connect).collect()
}

/// The callers of a run, and what they write.
type RunningLoad<'a> = (
    &'a RunState,
    &'a [Mutex<RunStats>],
    &'a mut JoinSet<Result<(), seqsvr_check::Error>>,
);

/// Waits until the callers end and prints a progress line every second. Returns the result of the
/// time after the warm-up.
async fn measure_run(
    settings: &BenchSettings,
    (run, stats, callers): RunningLoad<'_>,
    client: &Client,
    mut counters_before: ClusterCounters,
    print: ProgressPrinter,
) -> anyhow::Result<RunMeasurement> {
    let began = Instant::now();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut total = RunStats::new();
    let mut measured_from = began;
    let mut is_warm = settings.warm_up.is_zero();
    let mut last_progress = began;
    loop {
        let warmed_up = tokio::time::sleep_until(began + settings.warm_up);
        tokio::select! {
            () = warmed_up, if !is_warm => {
                RunStats::take_sum(stats);
                counters_before = ClusterCounters::read(client, &counters_before.silent).await?;
                // Calls in flight at the end of the warm-up belong to neither part.
                discard_in_flight(stats, settings.in_flight.into()).await;
                measured_from = Instant::now();
                last_progress = measured_from;
                ticks.reset();
                is_warm = true;
            }
            _ = ticks.tick() => {
                let interval_stats = RunStats::take_sum(stats);
                print(progress_line(began, last_progress, &interval_stats, !is_warm));
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
    let time = measured_from.elapsed();
    total.add_stats(&RunStats::take_sum(stats));
    let counters = ClusterCounters::read(client, &counters_before.silent)
        .await?
        .increase_since(&counters_before);
    if run.pacer.is_stopped() {
        print("ended early".to_owned());
    }
    Ok(RunMeasurement {
        time,
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

fn progress_line(
    began: Instant,
    last_progress: Instant,
    stats: &RunStats,
    is_warm_up: bool,
) -> String {
    let seconds = last_progress.elapsed().as_secs_f64();
    let p99 = match stats.latency.len() {
        0 => "-".to_owned(),
        _ => format_nanos(stats.latency.value_at_percentile(99.0)),
    };
    format!(
        "{:>4.0} s  {} calls a second  {} numbers a second  p99 {p99}  {} failed{}",
        began.elapsed().as_secs_f64(),
        format_grouped((stats.calls as f64 / seconds) as u64),
        format_grouped((stats.numbers as f64 / seconds) as u64),
        format_grouped(stats.failure_count()),
        if is_warm_up { "  (warm-up)" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_two_clusters_are_rejected() {
        let [one, two] = [1, 2].map(ClusterId);
        require_same_cluster(&[one, one, one]).unwrap();
        let error = require_same_cluster(&[one, one, two]).unwrap_err();
        let row = format!("connection 3 -> cluster {two}");
        assert!(error.to_string().contains(&row), "{error}");
    }
}
