//! Looks at the stores while a replacement catches up.

use std::time::{Duration, Instant};

use rustix::process::Pid;
use seqsvr_client::Client;
use seqsvr_test_support::process_stats::ProcessStats;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::store_group::{self, Rig};

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Status and page are asked as the page does.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Elections.
    pub elections: u64,
    /// Longest time since the leader sent a voter something that it acknowledged.
    pub silence: Duration,
    /// Peak resident memory of a store.
    pub memory: u64,
    /// Longest status.
    pub status: Duration,
    /// Longest page.
    pub page: Duration,
    /// Entries written a second.
    pub entries_per_second: f64,
}

/// Looks until it is stopped.
pub(super) struct Watch {
    stop: CancellationToken,
    looks: JoinHandle<Result<Seen, String>>,
    asks: JoinHandle<Result<Seen, String>>,
}

/// What a look needs of the rig.
struct Subject {
    client: Client,
    /// Stores that vote when the watch begins.
    voters: Vec<(u64, String)>,
    page_port: u16,
}

impl Watch {
    /// Begins to look. Stores that run now are voters.
    pub(super) fn start(rig: &Rig) -> Result<Watch, String> {
        let running = rig.running();
        let subject = || {
            Ok::<_, String>(Subject {
                client: rig.stores()?,
                voters: running.iter().map(|(id, a, _)| (*id, a.clone())).collect(),
                page_port: rig.page_port(),
            })
        };
        let stop = CancellationToken::new();
        Ok(Watch {
            looks: tokio::spawn(look(subject()?, own_stores(), stop.clone())),
            asks: tokio::spawn(ask(subject()?, stop.clone())),
            stop,
        })
    }

    /// Ends it.
    pub(super) async fn stop(self) -> Result<Seen, String> {
        self.stop.cancel();
        let looks = self.looks.await.map_err(|e| e.to_string())??;
        let asks = self.asks.await.map_err(|e| e.to_string())??;
        Ok(Seen {
            status: asks.status,
            page: asks.page,
            ..looks
        })
    }
}

/// Returns the process ids of the stores that this process has started, at the moment of a call. A
/// store that joins later is among them.
fn own_stores() -> impl Fn() -> Vec<Pid> {
    let own = std::process::id();
    move || {
        let children = format!("/proc/{own}/task");
        let tasks = std::fs::read_dir(children).into_iter().flatten().flatten();
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
}

async fn look(
    subject: Subject,
    stores: impl Fn() -> Vec<Pid>,
    stop: CancellationToken,
) -> Result<Seen, String> {
    let admin = subject.client.admin();
    let (mut seen, mut terms, mut indexes) = (Seen::default(), Vec::new(), Vec::new());
    let begun = Instant::now();
    while !stop.is_cancelled() {
        for pid in stores() {
            // A store that was killed has no memory.
            let memory = ProcessStats::read(pid, None).map_or(0, |vitals| vitals.memory_bytes);
            seen.memory = seen.memory.max(memory);
        }
        for (_, address) in &subject.voters {
            let status = admin.node_status(address).await;
            let counters = status.map_err(|e| e.to_string())?.counters;
            terms.extend(counters.get("raft_term").copied());
            indexes.extend(counters.get("raft_last_log_index").copied());
            for (id, _) in &subject.voters {
                let heard = counters.get(&format!("raft_heard_ms_{id}")).copied();
                let heard = Duration::from_millis(heard.unwrap_or(0));
                seen.silence = seen.silence.max(heard);
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let span = |all: &[u64]| {
        let (least, most) = (all.iter().min(), all.iter().max());
        most.zip(least).map_or(0, |(most, least)| most - least)
    };
    if terms.is_empty() {
        return Err(String::from("no store was looked at"));
    }
    seen.elections = span(&terms);
    seen.entries_per_second = span(&indexes) as f64 / begun.elapsed().as_secs_f64();
    Ok(seen)
}

async fn ask(subject: Subject, stop: CancellationToken) -> Result<Seen, String> {
    let mut seen = Seen::default();
    while !stop.is_cancelled() {
        let begun = Instant::now();
        let status = subject.client.admin().cluster_status().await;
        status.map_err(|e| e.to_string())?;
        seen.status = seen.status.max(begun.elapsed());
        seen.page = seen.page.max(store_group::page(subject.page_port).await?);
        tokio::time::sleep(STATUS_EVERY).await;
    }
    Ok(seen)
}
