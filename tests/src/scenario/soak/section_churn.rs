//! Load that keeps sections, keys and raises changing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_client::Client;
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use seqsvr_test_support::callers::{TestCall, TestCaller};
use seqsvr_test_support::history::History;
use seqsvr_test_support::test_keys::TestKey;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Sections visited in turn. Each is idle for longer than `--section-idle-timeout` before the next
/// visit.
const RING_SECTIONS: u64 = 300;
/// First section of the ring: above the sections of the mixed load.
const RING_FIRST_SECTION: u64 = 1_000;
/// Interval between two steps of the ring, and between two batches of fresh keys.
const RING_STEP_INTERVAL: Duration = Duration::from_millis(100);
/// Keys in each batch that were never used before.
const FRESH_KEYS_PER_BATCH: u64 = 50;

/// A namespace in which every number needs a raise, so that the log grows fast.
const SINGLES_NAMESPACE: &str = "singles";
/// Tasks that take these numbers, one number at a time each.
const RAISER_TASKS: u64 = 32;
/// Pause of each task after a number.
const RAISER_PAUSE: Duration = Duration::from_millis(10);

/// Load that visits sections one after the other, so that they open and close; uses each key once,
/// so that the memory for keys is exhausted; and takes numbers that each need a raise.
pub(super) struct SectionChurn {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl SectionChurn {
    /// Creates the namespace of single numbers and starts the tasks.
    pub(super) async fn start(history: &History, client: &Client) -> SectionChurn {
        let geometry = Geometry::Dense {
            section_size: 1,
            max_uid: RAISER_TASKS,
        };
        let spec = NamespaceSpec {
            step: 1,
            limits: NamespaceLimits {
                step_max: 1,
                ..NamespaceLimits::DEFAULT
            },
            ..NamespaceSpec::new(SINGLES_NAMESPACE, geometry)
        };
        let made = client.admin().create_namespace(&spec).await;
        made.expect("the namespace is created");
        let task = ChurnTask {
            stop: Arc::default(),
            answered: Arc::default(),
            caller: TestCaller::Sdk(client.clone()),
            history: history.clone(),
        };
        let raisers = (0..RAISER_TASKS).map(|uid| tokio::spawn(task.clone().take_singles(uid)));
        let visitor = tokio::spawn(task.clone().visit_sections());
        SectionChurn {
            tasks: raisers.chain([visitor]).collect(),
            stop: task.stop,
            answered: task.answered,
        }
    }

    /// Ends the load. Returns the number of answered calls. None failed.
    pub(super) async fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("no call of it fails");
        }
        self.answered.load(Relaxed)
    }
}

#[derive(Clone)]
struct ChurnTask {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    caller: TestCaller,
    history: History,
}

impl ChurnTask {
    async fn take_singles(mut self, uid: u64) {
        let test_key = [TestKey::from_uid(SINGLES_NAMESPACE, uid, 1)];
        while !self.stop.load(Relaxed) {
            self.take_numbers(&test_key).await;
            tokio::time::sleep(RAISER_PAUSE).await;
        }
    }

    async fn visit_sections(mut self) {
        let mut steps = interval(RING_STEP_INTERVAL);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut step = 0;
        while !self.stop.load(Relaxed) {
            steps.tick().await;
            let section = RING_FIRST_SECTION + step % RING_SECTIONS;
            self.take_numbers(&[TestKey::from_uid("default", section * 100_000, 1)])
                .await;
            let fresh = step * FRESH_KEYS_PER_BATCH..(step + 1) * FRESH_KEYS_PER_BATCH;
            let fresh: Vec<_> = fresh
                .map(|i| TestKey::from_key("keys", format!("fresh {i}")))
                .collect();
            self.take_numbers(&fresh).await;
            step += 1;
        }
    }

    /// Takes one number of each, all of which must be answered.
    async fn take_numbers(&mut self, test_keys: &[TestKey]) {
        let items: Vec<&TestKey> = test_keys.iter().collect();
        let begin = self.history.now_ns();
        let results = self.caller.call(0, TestCall::Next(1), &items).await;
        let end = self.history.now_ns();
        for (test_key, result) in test_keys.iter().zip(&results) {
            self.history
                .record(test_key, TestCall::Next(1), begin, end, result);
            assert!(result.is_ok(), "{}: {result:?}", test_key.sequence);
            self.answered.fetch_add(1, Relaxed);
        }
    }
}
