//! Observes the stores while a replacement catches up.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use seqsvr_client::Client;
use seqsvr_test_support::process_stats::ProcessStats;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::store_group::{self, StoreGroup};

/// Time between two reads of the stores' counters and memory.
const COUNTERS_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two requests of status and dashboard; that of an open dashboard.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Observations of a watch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StoreObservation {
    /// Number of elections.
    pub(super) elections: u64,
    /// Longest time since the leader sent a voter a message that the voter acknowledged.
    pub(super) silence: Duration,
    /// Peak resident memory of a store.
    pub(super) memory_bytes: u64,
    /// Longest status request.
    pub(super) status: Duration,
    /// Longest dashboard request.
    pub(super) page: Duration,
    /// Entries written per second.
    pub(super) entries_per_second: f64,
}

/// Observes the stores until it is stopped.
pub(super) struct StoreWatch {
    stop: CancellationToken,
    counters: JoinHandle<Result<StoreObservation, String>>,
    requests: JoinHandle<Result<StoreObservation, String>>,
}

/// Group that a watch reads.
struct WatchedGroup {
    client: Client,
    /// Stores that vote when the watch begins.
    voters: Vec<(u64, String)>,
    page_port: u16,
}

impl StoreWatch {
    /// Begins to observe. Stores that run now are voters.
    pub(super) fn start(group: &StoreGroup) -> Result<StoreWatch, String> {
        let running = group.running_stores();
        let watched = || {
            Ok::<_, String>(WatchedGroup {
                client: group.new_client()?,
                voters: running.iter().map(|(id, a, _)| (*id, a.clone())).collect(),
                page_port: group.page_port(),
            })
        };
        let stop = CancellationToken::new();
        Ok(StoreWatch {
            counters: tokio::spawn(watch_counters(watched()?, stop.clone())),
            requests: tokio::spawn(watch_requests(watched()?, stop.clone())),
            stop,
        })
    }

    /// Stops the watch.
    pub(super) async fn stop(self) -> Result<StoreObservation, String> {
        self.stop.cancel();
        let counters = self.counters.await.map_err(|e| e.to_string())??;
        let requests = self.requests.await.map_err(|e| e.to_string())??;
        Ok(StoreObservation {
            status: requests.status,
            page: requests.page,
            ..counters
        })
    }
}

/// Returns the process ids of the stores that this process has started and that run now. They
/// include stores that joined after the watch began.
fn list_store_pids() -> Vec<Pid> {
    let tasks = format!("/proc/{}/task", std::process::id());
    let tasks = std::fs::read_dir(tasks).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let ids: Vec<i32> = lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .filter_map(|id| id.parse().ok())
        .collect();
    let is_store = |id: &i32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"store".as_slice())
    };
    ids.into_iter()
        .filter(is_store)
        .filter_map(Pid::from_raw)
        .collect()
}

async fn watch_counters(
    watched: WatchedGroup,
    stop: CancellationToken,
) -> Result<StoreObservation, String> {
    let admin = watched.client.admin();
    let mut observed = StoreObservation::default();
    let (mut terms, mut indexes, mut silences) = (Vec::new(), Vec::new(), Vec::new());
    let started = Instant::now();
    while !stop.is_cancelled() {
        for pid in list_store_pids() {
            // A store that was killed has no memory.
            let bytes = ProcessStats::read(pid, None).map_or(0, |stats| stats.memory_bytes);
            observed.memory_bytes = observed.memory_bytes.max(bytes);
        }
        for (_, address) in &watched.voters {
            let status = admin.node_status(address).await;
            let counters = status.map_err(|e| e.to_string())?.counters;
            let counter = |name: &str| {
                let value = counters.get(name).copied();
                value.ok_or_else(|| format!("the store at {address} has no counter {name}"))
            };
            terms.push(counter("raft_term")?);
            indexes.push(counter("raft_last_log_index")?);
            for (id, _) in &watched.voters {
                // The leader has this counter of its followers only.
                let silence_ms = counters.get(&format!("raft_follower_last_ack_age_ms_{id}"));
                let silence = silence_ms.map(|ms| Duration::from_millis(*ms));
                silences.extend(silence);
            }
        }
        tokio::time::sleep(COUNTERS_INTERVAL).await;
    }
    let span = |all: &[u64]| {
        let (min, max) = (all.iter().min(), all.iter().max());
        max.zip(min).map_or(0, |(max, min)| max - min)
    };
    if terms.is_empty() {
        return Err(String::from("no counters of a store were read"));
    }
    let silence = silences.into_iter().max();
    observed.silence = silence.ok_or("no store reported when a follower last answered")?;
    observed.elections = span(&terms);
    observed.entries_per_second = span(&indexes) as f64 / started.elapsed().as_secs_f64();
    Ok(observed)
}

async fn watch_requests(
    watched: WatchedGroup,
    stop: CancellationToken,
) -> Result<StoreObservation, String> {
    let mut observed = StoreObservation::default();
    while !stop.is_cancelled() {
        let started = Instant::now();
        let status = watched.client.admin().cluster_status().await;
        status.map_err(|e| e.to_string())?;
        observed.status = observed.status.max(started.elapsed());
        let page = store_group::time_page(watched.page_port).await?;
        observed.page = observed.page.max(page);
        tokio::time::sleep(STATUS_INTERVAL).await;
    }
    Ok(observed)
}
