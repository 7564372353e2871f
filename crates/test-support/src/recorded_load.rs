//! A load: tasks that make mixed calls on a pool of sequences, record each call, and count results.
//!
//! A load ends after the configured number of calls or on [`RecordedLoad::stop`]. More than half of
//! the picks sweep over the whole pool, so that every sequence is used. The others go to a few hot
//! sequences, so that many calls of one sequence overlap or follow each other closely.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_check::CallAnswer;
use tokio::task::JoinSet;

use crate::callers::{TestCall, TestCaller};
use crate::history::History;
use crate::test_keys::TestKey;
use crate::wait::wait_until;

/// Hot sequences of each namespace.
const HOT_KEYS: usize = 40;
/// Items of a batch.
const BATCH_ITEMS: u64 = 20;
/// Maximum failures kept as text. Later failures are only counted.
const FAILURE_TEXTS_MAX: usize = 20;
/// Pause after a failure, so that a failed cluster is not called in a tight loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);

/// Number and length of the pauses in which SDK and plain callers let endpoint callers catch up.
const CATCH_UP_PAUSES: u32 = 20;
const CATCH_UP_PAUSE: Duration = Duration::from_millis(2);

/// Number of calls of a load that ends only on [`RecordedLoad::stop`].
pub const UNTIL_STOPPED: u64 = u64::MAX;

/// A running load.
pub struct RecordedLoad {
    shared: Arc<LoadShared>,
    tasks: JoinSet<()>,
}

struct LoadShared {
    /// One list for each namespace, none empty, and the position of the next sweeping pick.
    pool: Vec<(AtomicUsize, Vec<TestKey>)>,
    calls_left: AtomicU64,
    answered: AtomicU64,
    through_endpoints: AtomicU64,
    /// Whether some callers use the Redis or HTTP endpoint.
    has_endpoint_callers: bool,
    failed: AtomicU64,
    stop: AtomicBool,
    failures: Mutex<Vec<String>>,
    longest: Mutex<(Duration, String)>,
}

/// Result of a load.
#[derive(Debug)]
pub struct LoadSummary {
    /// Calls answered; each item of a batch counts as one.
    pub answered: u64,
    /// Answered calls of Redis and HTTP callers.
    pub through_endpoints: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Texts of the first failures.
    pub failures: Vec<String>,
    /// Longest call, answered or not, and its description.
    pub longest: (Duration, String),
}

impl LoadSummary {
    /// Panics with the first failures if a call failed.
    #[track_caller]
    pub fn assert_none_failed(&self) {
        assert_eq!(self.failed, 0, "{:?}", self.failures);
    }
}

impl RecordedLoad {
    /// Starts `tasks` tasks for each caller, which make `calls` calls in all.
    pub fn start(
        history: &History,
        pool: Vec<Vec<TestKey>>,
        callers: &[TestCaller],
        tasks: usize,
        calls: u64,
    ) -> RecordedLoad {
        RecordedLoad::start_paced(history, pool, callers, tasks, calls, Duration::ZERO)
    }

    /// Starts a load in which each task pauses for `pause` after each call.
    pub fn start_paced(
        history: &History,
        pool: Vec<Vec<TestKey>>,
        callers: &[TestCaller],
        tasks: usize,
        calls: u64,
        pause: Duration,
    ) -> RecordedLoad {
        assert!(pool.iter().all(|list| !list.is_empty()), "an empty list");
        let shared = Arc::new(LoadShared {
            pool: pool
                .into_iter()
                .map(|list| (AtomicUsize::new(0), list))
                .collect(),
            calls_left: AtomicU64::new(calls),
            answered: AtomicU64::new(0),
            through_endpoints: AtomicU64::new(0),
            has_endpoint_callers: callers.iter().any(TestCaller::uses_endpoint),
            failed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failures: Mutex::default(),
            longest: Mutex::default(),
        });
        let mut set = JoinSet::new();
        for (n, caller) in (0..).zip(callers.iter().flat_map(|c| vec![c.clone(); tasks])) {
            let worker = LoadWorker {
                shared: shared.clone(),
                history: history.clone(),
                caller,
                pause,
                rng: SmallRng::seed_from_u64(n),
            };
            set.spawn(worker.run());
        }
        RecordedLoad { shared, tasks: set }
    }

    /// Returns the calls answered so far. The difference between two readings is the number of
    /// calls answered between them.
    pub fn answered_calls(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until `more` further calls are answered.
    pub async fn wait_for_calls(&self, more: u64, timeout: Duration) {
        let goal = self.answered_calls() + more;
        wait_until("further answered calls", timeout, async || {
            (self.answered_calls() >= goal).then_some(())
        })
        .await;
    }

    /// Waits until the configured number of calls is made.
    pub async fn wait_until_done(mut self) -> LoadSummary {
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no task panics");
        }
        let failures = std::mem::take(&mut *self.shared.failures.lock().unwrap());
        let longest = std::mem::take(&mut *self.shared.longest.lock().unwrap());
        LoadSummary {
            answered: self.answered_calls(),
            through_endpoints: self.shared.through_endpoints.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
            failures,
            longest,
        }
    }

    /// Waits for the calls in flight and starts no more.
    pub async fn stop(self) -> LoadSummary {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wait_until_done().await
    }
}

impl LoadShared {
    /// Reserves up to `n` of the remaining calls. 0 means that the load is over.
    fn reserve_calls(&self, n: u64) -> u64 {
        if self.stop.load(Ordering::Relaxed) {
            return 0;
        }
        let taken =
            self.calls_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |calls_left| {
                    Some(calls_left - calls_left.min(n))
                });
        taken.unwrap_or_default().min(n)
    }
}

struct LoadWorker {
    shared: Arc<LoadShared>,
    history: History,
    caller: TestCaller,
    pause: Duration,
    rng: SmallRng,
}

impl LoadWorker {
    async fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            let (call, size) = match self.rng.random_range(0..100) {
                0..40 => (TestCall::Next(self.rng.random_range(1..4)), 1),
                40..60 => (TestCall::Next(self.rng.random_range(1..3)), BATCH_ITEMS),
                60..80 => (TestCall::Current, 1),
                80..85 => (TestCall::Current, BATCH_ITEMS),
                _ => (TestCall::Next(1), 2),
            };
            // Two calls on one sequence: take a number, then raise the sequence a little above it.
            let raise = size == 2;
            self.keep_pace().await;
            let n = shared.reserve_calls(size);
            if n == 0 {
                return;
            }
            let items = self.pick_keys(&shared.pool, if raise { 1 } else { n as usize });
            for (node, part) in self.caller.split_by_node(&items).await {
                let first_answer = self.call_recorded(node, call, &part).await;
                if let (true, 2, Some(CallAnswer::Next { last, .. })) = (raise, n, first_answer) {
                    let to = last + self.rng.random_range(1..30);
                    self.call_recorded(node, TestCall::RaiseTo(to), &part).await;
                }
            }
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
        }
    }

    /// SDK and plain callers are several times as fast as endpoint callers, which should make half
    /// of the calls. The fast ones wait while they are ahead, but not for long, because the
    /// endpoints may be closed.
    async fn keep_pace(&self) {
        let shared = &self.shared;
        for _ in 0..CATCH_UP_PAUSES {
            let answered = shared.answered.load(Ordering::Relaxed);
            let through_endpoints = shared.through_endpoints.load(Ordering::Relaxed);
            if !shared.has_endpoint_callers
                || self.caller.uses_endpoint()
                || 2 * through_endpoints >= answered
            {
                return;
            }
            tokio::time::sleep(CATCH_UP_PAUSE).await;
        }
    }

    /// Picks keys of one namespace.
    fn pick_keys<'a>(
        &mut self,
        pool: &'a [(AtomicUsize, Vec<TestKey>)],
        n: usize,
    ) -> Vec<&'a TestKey> {
        let (sweep, list) = &pool[self.rng.random_range(0..pool.len())];
        if self.rng.random_bool(0.4) {
            let hot = HOT_KEYS.min(list.len());
            return (0..n)
                .map(|_| &list[self.rng.random_range(0..hot)])
                .collect();
        }
        let at = sweep.fetch_add(n, Ordering::Relaxed) % list.len();
        list.iter().cycle().skip(at).take(n).collect()
    }

    /// Makes and records one call. Returns the answer of its first item.
    async fn call_recorded(
        &mut self,
        node: usize,
        call: TestCall,
        items: &[&TestKey],
    ) -> Option<CallAnswer> {
        let begin = self.history.now_ns();
        let results = self.caller.call(node, call, items).await;
        let end = self.history.now_ns();
        assert_eq!(results.len(), items.len(), "one result an item");
        let mut failed = None;
        for (test_key, result) in items.iter().zip(&results) {
            self.history.record(test_key, call, begin, end, result);
            if let Err(text) = result {
                failed = Some(format!("{call:?} of {}: {text}", test_key.sequence));
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.shared.answered.fetch_add(1, Ordering::Relaxed);
                if self.caller.uses_endpoint() {
                    self.shared
                        .through_endpoints
                        .fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let took = Duration::from_nanos(end - begin);
        {
            let mut longest = self.shared.longest.lock().unwrap();
            if took > longest.0 {
                let who = match self.caller {
                    TestCaller::Sdk(_) => "client",
                    TestCaller::Grpc(_) => "plain caller",
                    TestCaller::Endpoint(_) => "caller of another protocol",
                };
                let first = &items[0].sequence;
                *longest = (
                    took,
                    format!("{call:?} of {} items at {first}, {who}", items.len()),
                );
            }
        }
        if let Some(text) = failed {
            {
                let mut failures = self.shared.failures.lock().unwrap();
                if failures.len() < FAILURE_TEXTS_MAX {
                    let at = Duration::from_nanos(begin);
                    failures.push(format!("{text} (from {at:.1?}, {took:.1?} long)"));
                }
            }
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
        results[0]
            .as_ref()
            .ok()
            .map(|(_, first_answer)| *first_answer)
    }
}
