//! A process that makes ids with a worker of its own until it is killed: a maker of the scenario
//! `ids_under_faults`.
//!
//! `id-holder SERVERS FAMILY NAME FILE INTERVAL_MS`: every interval it takes the ids of a tick, and
//! appends them as runs to the file. It ends with an error if an id is not greater than those
//! before.

#![expect(
    clippy::expect_used,
    reason = "a process of a test that fails is a test that fails"
)]

use std::path::Path;
use std::time::Duration;

use seqsvr_client::{Client, ClientOptions, FamilyHandle, LocalOptions};
use seqsvr_tests::id_run::{IdRun, RunWriter, monotonic_ns};
use tokio::time::{MissedTickBehavior, interval, sleep};

const RETRY_INTERVAL: Duration = Duration::from_millis(20);

#[tokio::main(worker_threads = 1)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [servers, family, name, file, interval_ms] = &args[..] else {
        panic!("id-holder SERVERS FAMILY NAME FILE INTERVAL_MS");
    };
    let mut file = RunWriter::open(Path::new(file));
    let interval_ms = interval_ms.parse().expect("milliseconds");
    let options = ClientOptions::new(servers.split(',').map(str::to_owned));
    let client = Client::new(options).expect("good addresses");
    let family = client.family(family).await.expect("the family exists");
    let local = loop {
        let options = LocalOptions::default().with_name(name);
        match family.local(options).await {
            Ok(local) => break local,
            Err(error) => println!("no worker: {error}"),
        }
        sleep(RETRY_INTERVAL).await;
    };
    let mut ids = vec![0; capacity_of(&family) as usize];
    let mut turns = interval(Duration::from_millis(interval_ms));
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = 0;
    loop {
        turns.tick().await;
        let before = local.workers();
        let begin = monotonic_ns();
        if let Err(error) = local.fill(&mut ids) {
            println!("no ids: {error}");
            sleep(RETRY_INTERVAL).await;
            continue;
        }
        let end = monotonic_ns();
        for &id in &ids {
            assert!(id > last, "{name}: {id} after {last}");
            last = id;
        }
        let after = local.workers();
        let held: Vec<_> = before.into_iter().filter(|w| after.contains(w)).collect();
        let mut runs = read_runs(&family, &ids);
        for run in &mut runs {
            (run.begin, run.end) = (begin, end);
            let worker = held.iter().find(|(worker, _)| worker.0 == run.worker);
            run.epoch = worker.map(|(_, epoch)| *epoch);
        }
        file.write(&runs);
    }
}

/// Returns the ids of a tick of a worker.
fn capacity_of(family: &FamilyHandle) -> u64 {
    u64::from(family.scheme().codec().max_parts().seq) + 1
}

/// Returns the runs of positions that these ids are, without epochs and times.
fn read_runs(family: &FamilyHandle, ids: &[u64]) -> Vec<IdRun> {
    let (scheme, capacity) = (family.scheme(), capacity_of(family));
    let mut runs: Vec<IdRun> = Vec::new();
    for &id in ids {
        let parts = scheme.read(id).expect("an id of the family").parts;
        let position = parts.tick * capacity + u64::from(parts.seq);
        match runs.last_mut() {
            Some(run)
                if (run.worker, run.lane) == (parts.worker, parts.lane)
                    && run.first + run.count == position =>
            {
                run.count += 1;
            }
            _ => runs.push(IdRun {
                worker: parts.worker,
                lane: parts.lane,
                epoch: None,
                first: position,
                count: 1,
                begin: 0,
                end: 0,
            }),
        }
    }
    runs
}
