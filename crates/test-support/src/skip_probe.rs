//! A probe for skipped numbers. Each section has one uid, so that a sequence that loses nothing
//! rises by one. The window has a million numbers, so that a lost window is obvious.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_check::{CallAnswer, SequenceName};
use seqsvr_client::{Client, Key};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::namespace::{NamespaceLimits, NamespaceSpec};
use tokio::task::JoinHandle;

use crate::build_variant;
use crate::callers::{TestCall, TestCaller};
use crate::history::History;
use crate::test_keys::TestKey;

const PROBE_NAMESPACE: &str = "probe";
/// Sections, each of one uid.
const PROBE_UIDS: u64 = 64;
const PROBE_STEP: u32 = 1_000_000;
/// Calls in flight, each for its own uids.
const PROBE_TASKS: u64 = 8;
/// Pause between two calls of one task: the probe observes, it is not the load.
const CALL_PAUSE: Duration = Duration::from_millis(2);

/// A running probe.
pub struct SkipProbe {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// Each returns the sum of the greatest numbers of its uids.
    tasks: Vec<JoinHandle<u64>>,
}

impl SkipProbe {
    /// Starts the probe. Every call is recorded and must be answered.
    pub async fn start(history: &History, client: &Client) -> SkipProbe {
        let geometry = Geometry::Dense {
            section_size: 1,
            max_uid: PROBE_UIDS,
        };
        let spec = NamespaceSpec {
            step: PROBE_STEP,
            limits: NamespaceLimits {
                step_max: PROBE_STEP,
                ..build_variant::namespace_limits()
            },
            ..NamespaceSpec::new(PROBE_NAMESPACE, geometry)
        };
        let made = client.admin().create_namespace(&spec).await;
        made.expect("the namespace of the probe is created");
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let tasks = (0..PROBE_TASKS).map(|task| {
            let task = ProbeTask {
                uids: (0..PROBE_UIDS)
                    .filter(|uid| uid % PROBE_TASKS == task)
                    .collect(),
                caller: TestCaller::Sdk(client.clone()),
                history: history.clone(),
                stop: stop.clone(),
                answered: answered.clone(),
            };
            tokio::spawn(task.run())
        });
        SkipProbe {
            tasks: tasks.collect(),
            stop,
            answered,
        }
    }

    /// Returns the calls answered so far.
    pub fn answered_calls(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Ends the probe. Returns (calls answered, numbers skipped).
    pub async fn stop(self) -> (u64, u64) {
        self.stop.store(true, Relaxed);
        let mut reached = 0;
        for task in self.tasks {
            reached += task.await.expect("every call of the probe is answered");
        }
        let answered = self.answered.load(Relaxed);
        (answered, reached - answered)
    }
}

/// One task of a probe.
struct ProbeTask {
    uids: Vec<u64>,
    caller: TestCaller,
    history: History,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

impl ProbeTask {
    async fn run(mut self) -> u64 {
        let mut reached = vec![0; self.uids.len()];
        for i in (0..self.uids.len()).cycle() {
            if self.stop.load(Relaxed) {
                break;
            }
            reached[i] = self.take_number(self.uids[i]).await;
            self.answered.fetch_add(1, Relaxed);
            tokio::time::sleep(CALL_PAUSE).await;
        }
        reached.iter().sum()
    }

    async fn take_number(&mut self, uid: u64) -> u64 {
        let test_key = TestKey {
            namespace: PROBE_NAMESPACE,
            key: Key::Uid(uid),
            stride: NonZeroU64::MIN,
            sequence: SequenceName::for_uid(PROBE_NAMESPACE, uid),
        };
        let (call, begin) = (TestCall::Next(1), self.history.now_ns());
        let results = self.caller.call(0, call, &[&test_key]).await;
        let end = self.history.now_ns();
        self.history
            .record(&test_key, call, begin, end, &results[0]);
        match &results[0] {
            Ok((_, CallAnswer::Next { last, .. })) => *last,
            other => panic!("the probe's call of uid {uid} failed: {other:?}"),
        }
    }
}
