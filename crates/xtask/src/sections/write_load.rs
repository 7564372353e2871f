//! Calls at a fixed rate, each of which writes an entry: each raises a key above its window.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use seqsvr_client::{Client, ClientOptions};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Number of keys that are raised in turn.
const KEYS: u64 = 1_000;
/// Numbers by which a call exceeds the call before; more than a window has.
const RAISE_STEP: u64 = 25_000;
/// Maximum calls in flight. Above it, calls are left out.
const CALLS_IN_FLIGHT_MAX: usize = 256;
/// Deadline of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Outcomes of the calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WriteLoadResult {
    /// Number of calls answered.
    pub(super) answered: u64,
    /// Number of calls that failed.
    pub(super) failed: u64,
    /// Time of the longest call.
    pub(super) longest: Duration,
}

/// A load that runs until it is stopped.
pub(super) struct WriteLoad {
    stop: CancellationToken,
    task: JoinHandle<()>,
    permits: Arc<Semaphore>,
    result: Arc<Mutex<WriteLoadResult>>,
}

impl WriteLoad {
    /// Begins to call the AllocSvr at this address, `rate` times per second.
    pub(super) fn start(address: String, rate: u32) -> Result<WriteLoad, String> {
        let client = Client::new(ClientOptions::new([address]).with_deadline(CALL_TIMEOUT));
        let client = client.map_err(|e| e.to_string())?;
        let stop = CancellationToken::new();
        let permits = Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX));
        let result: Arc<Mutex<WriteLoadResult>> = Arc::default();
        let calls = make_calls(client, rate, stop.clone(), permits.clone(), result.clone());
        Ok(WriteLoad {
            stop,
            task: tokio::spawn(calls),
            permits,
            result,
        })
    }

    /// Stops the load and waits for the last response.
    pub(super) async fn stop(self) -> Result<WriteLoadResult, String> {
        self.stop.cancel();
        self.task.await.map_err(|e| e.to_string())?;
        let all = self.permits.acquire_many(CALLS_IN_FLIGHT_MAX as u32).await;
        all.map(drop).map_err(|e| e.to_string())?;
        Ok(*self.result.lock())
    }
}

async fn make_calls(
    client: Client,
    rate: u32,
    stop: CancellationToken,
    permits: Arc<Semaphore>,
    result: Arc<Mutex<WriteLoadResult>>,
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
        let (client, result) = (client.clone(), result.clone());
        tokio::spawn(async move {
            let started = Instant::now();
            let key = format!("key-{}", n % KEYS);
            // Above every earlier window: keys share sections, and a value within the window writes
            // nothing.
            let value = RAISE_STEP * (1 + n);
            let raised = client
                .namespace("keys")
                .raise_to(key.as_str(), value)
                .force(true)
                .await;
            let mut result = result.lock();
            match raised {
                Ok(_) => result.answered += 1,
                Err(_) => result.failed += 1,
            }
            result.longest = result.longest.max(started.elapsed());
            drop(permit);
        });
    }
}
