//! Calls at a fixed rate, each of which writes an entry: every one raises a key beyond its window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seqsvr_client::{Client, Options};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Keys that are raised in turn.
const KEYS: u64 = 1_000;
/// Numbers by which a call exceeds the one before: more than a window has.
const JUMP: u64 = 25_000;
/// Calls at a time. If so many wait, calls are left out.
const CALLS_MAX: usize = 256;
/// Time of a call.
const CALL: Duration = Duration::from_secs(30);

/// What became of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// Calls answered.
    pub answered: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Time of the longest call.
    pub longest: Duration,
}

/// A load that runs until it is stopped.
pub(super) struct Load {
    stop: CancellationToken,
    task: JoinHandle<()>,
    permits: Arc<Semaphore>,
    calls: Arc<Mutex<Calls>>,
}

impl Load {
    /// Begins to call the AllocSvr at this address.
    pub(super) fn start(address: String, rate: u32) -> Result<Load, String> {
        let client = Client::new(Options {
            deadline: CALL,
            ..Options::new([address])
        });
        let client = client.map_err(|e| e.to_string())?;
        let stop = CancellationToken::new();
        let permits = Arc::new(Semaphore::new(CALLS_MAX));
        let calls: Arc<Mutex<Calls>> = Arc::default();
        let run = run(client, rate, stop.clone(), permits.clone(), calls.clone());
        Ok(Load {
            stop,
            task: tokio::spawn(run),
            permits,
            calls,
        })
    }

    /// Ends it, and waits for the last answer.
    pub(super) async fn stop(self) -> Result<Calls, String> {
        self.stop.cancel();
        self.task.await.map_err(|e| e.to_string())?;
        let all = self.permits.acquire_many(CALLS_MAX as u32).await;
        all.map(drop).map_err(|e| e.to_string())?;
        Ok(*self.calls.lock())
    }
}

async fn run(
    client: Client,
    rate: u32,
    stop: CancellationToken,
    permits: Arc<Semaphore>,
    calls: Arc<Mutex<Calls>>,
) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    for n in 0u64.. {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            continue;
        };
        let (client, calls) = (client.clone(), calls.clone());
        tokio::spawn(async move {
            let begun = Instant::now();
            let key = format!("key-{}", n % KEYS);
            // Above every window so far: keys share sections, and a key within the window writes
            // nothing.
            let value = JUMP * (1 + n);
            let raised = client.raise_to("keys", key.as_str(), value, true).await;
            let mut calls = calls.lock();
            match raised {
                Ok(_) => calls.answered += 1,
                Err(_) => calls.failed += 1,
            }
            calls.longest = calls.longest.max(begun.elapsed());
            drop(permit);
        });
    }
}
