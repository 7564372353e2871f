//! A load: tasks that make mixed calls on a pool of sequences, record each call, and count results.
//!
//! A load ends after the configured number of calls or on [`Load::stop`]. More than half of the
//! picks sweep over the whole pool, so that every sequence is used. The others go to a few hot
//! sequences, so that many calls of one sequence overlap or follow each other closely.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use seqsvr_check::Answer;
use tokio::task::JoinSet;

use crate::caller::{Ask, Caller};
use crate::history::History;
use crate::subject::Subject;
use crate::wait::until;

/// Hot sequences of each namespace.
const HOT: usize = 40;
/// Items of a batch.
const BATCH: u64 = 20;
/// Maximum failures kept as text. Later failures are only counted.
const TEXTS: usize = 20;
/// Pause after a failure, so that a failed cluster is not called in a tight loop.
const REST: Duration = Duration::from_millis(20);

/// Number and length of the pauses in which SDK and plain callers let endpoint callers catch up.
const WAITS: u32 = 20;
const WAIT: Duration = Duration::from_millis(2);

/// Number of calls of a load that ends only on [`Load::stop`].
pub const UNTIL_STOPPED: u64 = u64::MAX;

/// A running load.
pub struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    /// One list for each namespace, none empty, and the position of the next sweeping pick.
    pool: Vec<(AtomicUsize, Vec<Subject>)>,
    left: AtomicU64,
    answered: AtomicU64,
    through_doors: AtomicU64,
    /// Whether some callers use the Redis or HTTP endpoint.
    has_doors: bool,
    failed: AtomicU64,
    stop: AtomicBool,
    failures: Mutex<Vec<String>>,
    longest: Mutex<(Duration, String)>,
}

/// Result of a load.
#[derive(Debug)]
pub struct Summary {
    /// Calls answered; each item of a batch counts as one.
    pub answered: u64,
    /// Answered calls of Redis and HTTP callers.
    pub through_doors: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Texts of the first failures.
    pub failures: Vec<String>,
    /// Longest call, answered or not, and its description.
    pub longest: (Duration, String),
}

impl Load {
    /// Starts `tasks` tasks for each caller, which make `calls` calls in all.
    pub fn start(
        history: &History,
        pool: Vec<Vec<Subject>>,
        callers: &[Caller],
        tasks: usize,
        calls: u64,
    ) -> Load {
        Load::paced(history, pool, callers, tasks, calls, Duration::ZERO)
    }

    /// Starts a load in which each task pauses for `rest` after each call.
    pub fn paced(
        history: &History,
        pool: Vec<Vec<Subject>>,
        callers: &[Caller],
        tasks: usize,
        calls: u64,
        rest: Duration,
    ) -> Load {
        assert!(pool.iter().all(|list| !list.is_empty()), "an empty list");
        let shared = Arc::new(Shared {
            pool: pool
                .into_iter()
                .map(|list| (AtomicUsize::new(0), list))
                .collect(),
            left: AtomicU64::new(calls),
            answered: AtomicU64::new(0),
            through_doors: AtomicU64::new(0),
            has_doors: callers.iter().any(Caller::is_door),
            failed: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            failures: Mutex::default(),
            longest: Mutex::default(),
        });
        let mut set = JoinSet::new();
        for (n, caller) in (0..).zip(callers.iter().flat_map(|c| vec![c.clone(); tasks])) {
            let worker = Worker {
                shared: shared.clone(),
                history: history.clone(),
                caller,
                rest,
                rng: SmallRng::seed_from_u64(n),
            };
            set.spawn(worker.run());
        }
        Load { shared, tasks: set }
    }

    /// Returns the calls answered so far. The difference between two readings is the number of
    /// calls answered between them.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Waits until `more` further calls are answered.
    pub async fn answer_more(&self, more: u64, within: Duration) {
        let goal = self.answered() + more;
        until("further answered calls", within, async || {
            (self.answered() >= goal).then_some(())
        })
        .await;
    }

    /// Waits until the configured number of calls is made.
    pub async fn finish(mut self) -> Summary {
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no task panics");
        }
        let failures = std::mem::take(&mut *self.shared.failures.lock().unwrap());
        let longest = std::mem::take(&mut *self.shared.longest.lock().unwrap());
        Summary {
            answered: self.answered(),
            through_doors: self.shared.through_doors.load(Ordering::Relaxed),
            failed: self.shared.failed.load(Ordering::Relaxed),
            failures,
            longest,
        }
    }

    /// Waits for the calls in flight and starts no more.
    pub async fn stop(self) -> Summary {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.finish().await
    }
}

impl Shared {
    /// Reserves up to `n` of the remaining calls. 0 means that the load is over.
    fn take(&self, n: u64) -> u64 {
        if self.stop.load(Ordering::Relaxed) {
            return 0;
        }
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left - left.min(n))
            });
        taken.unwrap_or_default().min(n)
    }
}

struct Worker {
    shared: Arc<Shared>,
    history: History,
    caller: Caller,
    rest: Duration,
    rng: SmallRng,
}

impl Worker {
    async fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            let (ask, size) = match self.rng.random_range(0..100) {
                0..40 => (Ask::Next(self.rng.random_range(1..4)), 1),
                40..60 => (Ask::Next(self.rng.random_range(1..3)), BATCH),
                60..80 => (Ask::Current, 1),
                80..85 => (Ask::Current, BATCH),
                _ => (Ask::Next(1), 2),
            };
            // Two calls on one sequence: take a number, then raise the sequence a little above it.
            let raise = size == 2;
            self.keep_pace().await;
            let n = shared.take(size);
            if n == 0 {
                return;
            }
            let items = self.pick(&shared.pool, if raise { 1 } else { n as usize });
            for (node, part) in self.caller.part(&items).await {
                let answer = self.call(node, ask, &part).await;
                if let (true, 2, Some(Answer::Next { last, .. })) = (raise, n, answer) {
                    let to = last + self.rng.random_range(1..30);
                    self.call(node, Ask::RaiseTo(to), &part).await;
                }
            }
            if !self.rest.is_zero() {
                tokio::time::sleep(self.rest).await;
            }
        }
    }

    /// SDK and plain callers are several times as fast as endpoint callers, which should make half
    /// of the calls. The fast ones wait while they are ahead, but not for long, because the
    /// endpoints may be closed.
    async fn keep_pace(&self) {
        let shared = &self.shared;
        for _ in 0..WAITS {
            let answered = shared.answered.load(Ordering::Relaxed);
            let doors = shared.through_doors.load(Ordering::Relaxed);
            if !shared.has_doors || self.caller.is_door() || 2 * doors >= answered {
                return;
            }
            tokio::time::sleep(WAIT).await;
        }
    }

    /// Picks subjects of one namespace.
    fn pick<'a>(&mut self, pool: &'a [(AtomicUsize, Vec<Subject>)], n: usize) -> Vec<&'a Subject> {
        let (sweep, list) = &pool[self.rng.random_range(0..pool.len())];
        if self.rng.random_bool(0.4) {
            let hot = HOT.min(list.len());
            return (0..n)
                .map(|_| &list[self.rng.random_range(0..hot)])
                .collect();
        }
        let at = sweep.fetch_add(n, Ordering::Relaxed) % list.len();
        list.iter().cycle().skip(at).take(n).collect()
    }

    /// Makes and records one call. Returns the answer of its first item.
    async fn call(&mut self, node: usize, ask: Ask, items: &[&Subject]) -> Option<Answer> {
        let begin = self.history.now();
        let results = self.caller.ask(node, ask, items).await;
        let end = self.history.now();
        assert_eq!(results.len(), items.len(), "one result an item");
        let mut failed = None;
        for (subject, result) in items.iter().zip(&results) {
            self.history.record(subject, ask, begin, end, result);
            if let Err(text) = result {
                failed = Some(format!("{ask:?} of {}: {text}", subject.sequence));
                self.shared.failed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.shared.answered.fetch_add(1, Ordering::Relaxed);
                if self.caller.is_door() {
                    self.shared.through_doors.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let took = Duration::from_nanos(end - begin);
        {
            let mut longest = self.shared.longest.lock().unwrap();
            if took > longest.0 {
                let who = match self.caller {
                    Caller::Client(_) => "client",
                    Caller::Plain(_) => "plain caller",
                    Caller::Door(_) => "caller of another protocol",
                };
                let first = &items[0].sequence;
                *longest = (
                    took,
                    format!("{ask:?} of {} items at {first}, {who}", items.len()),
                );
            }
        }
        if let Some(text) = failed {
            {
                let mut failures = self.shared.failures.lock().unwrap();
                if failures.len() < TEXTS {
                    let at = Duration::from_nanos(begin);
                    failures.push(format!("{text} (from {at:.1?}, {took:.1?} long)"));
                }
            }
            tokio::time::sleep(REST).await;
        }
        results[0].as_ref().ok().map(|(_, answer)| *answer)
    }
}
