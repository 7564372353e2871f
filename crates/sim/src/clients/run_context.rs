//! State that clients share with the world, and the record of all calls for the judges.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seqsvr_check::{CallAnswer, CallKind, CallOutcome, RecordedCall, SequenceName};
use seqsvr_client::{Client, Error};

use super::unanswered_calls::UnansweredCalls;
use crate::cluster::machine_name;
use crate::judges::answer_judge::AnswerJudge;
use crate::judges::id_judge::{IdCall, IdJudge, IdReceiver};
use crate::network::{MachineId, SimNetwork};
use crate::plan::RunPlan;

/// Number of uids of a section.
pub const UIDS_PER_SECTION: u32 = 10;
/// Namespace of all calls.
pub const NAMESPACE: &str = "d";
/// Family of all ids.
pub const FAMILY: &str = "f";

/// State that the clients of a run share with the world.
pub struct RunContext {
    /// Simulated network.
    pub net: SimNetwork,
    /// Simulated time, ms.
    now_ms: AtomicU64,
    /// Number of timestamps taken, which makes each one unique.
    timestamps_taken: AtomicU64,
    /// Number of clusters that operators began to initialize.
    cluster_ids_taken: AtomicU64,
    /// Number of clients that have got their first answer.
    pub ready_clients: AtomicU64,
    /// Time after which callers begin no call, ms.
    pub stop_calls_at_ms: AtomicU64,
    /// Number of clients that got an answer to each call of the last round.
    pub finished_clients: AtomicU64,
    /// Whether clients may begin the last round of calls.
    pub may_begin_last_round: AtomicBool,
    /// End of the calm phase, ms; 0: the phase has not begun.
    pub calm_until_ms: AtomicU64,
    /// Maximum duration of a call in the calm phase, ms. A longer one breaks a rule.
    calm_call_max_ms: AtomicU64,
    /// Number of clients that have made all calls of the calm phase.
    pub calm_clients: AtomicU64,
    /// Tag of the cluster that gave the last answer.
    pub last_cluster_tag: AtomicU64,
    /// All calls that have ended.
    pub calls: Mutex<Vec<RecordedCall>>,
    /// Calls that have no answer.
    pub unanswered_calls: Mutex<UnansweredCalls>,
    /// Number of calls that got an answer.
    pub answered_calls: AtomicU64,
    /// Judge of every answer.
    pub answer_judge: Mutex<AnswerJudge>,
    /// Judge of every id; None: the cluster has no family.
    id_judge: Option<Mutex<IdJudge>>,
    /// Number of holders that began.
    holders_begun: AtomicU64,
    /// Actions of operators that the world has not followed yet.
    pub reports: Mutex<Vec<OperatorReport>>,
}

/// Result of an operator's action.
pub enum OperatorReport {
    /// The store of this machine has left the cluster.
    StoreRemoved(MachineId),
    /// The cluster rejected the store of this machine, so its process is useless.
    StoreRejected(MachineId),
    /// The cluster cannot be initialized in its present state: all disks must be wiped.
    InitFailed,
}

impl RunContext {
    /// Creates the state of a run without calls.
    pub fn new(net: SimNetwork, plan: &RunPlan) -> RunContext {
        RunContext {
            net,
            now_ms: AtomicU64::new(0),
            timestamps_taken: AtomicU64::new(0),
            cluster_ids_taken: AtomicU64::new(0),
            ready_clients: AtomicU64::new(0),
            stop_calls_at_ms: AtomicU64::new(u64::MAX),
            finished_clients: AtomicU64::new(0),
            may_begin_last_round: AtomicBool::new(false),
            calm_until_ms: AtomicU64::new(0),
            calm_call_max_ms: AtomicU64::new(0),
            calm_clients: AtomicU64::new(0),
            last_cluster_tag: AtomicU64::new(0),
            calls: Mutex::default(),
            unanswered_calls: Mutex::default(),
            answered_calls: AtomicU64::new(0),
            answer_judge: Mutex::new(AnswerJudge::new(plan.has_bounded_clocks)),
            id_judge: IdJudge::new(plan).map(Mutex::new),
            holders_begun: AtomicU64::new(0),
            reports: Mutex::default(),
        }
    }

    /// Returns the simulated time, ms.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    /// Returns a cluster id that this run has not used yet.
    pub fn next_cluster_id(&self) -> u128 {
        u128::from(self.cluster_ids_taken.fetch_add(1, Relaxed)) + 7
    }

    /// Begins the calm phase, until the time `until` (ms): no call may fail or take longer than
    /// `call_max_ms`.
    pub fn begin_calm_phase(&self, until: u64, call_max_ms: u64) {
        self.calm_call_max_ms.store(call_max_ms, Relaxed);
        self.calm_until_ms.store(until, Relaxed);
    }

    /// Judges a call that began in the calm phase.
    fn judge_calm_call(&self, call: &PendingCall, error: Option<&Error>) {
        let took_ms = self.now_ms() - call.at_ms;
        let max_ms = self.calm_call_max_ms.load(Relaxed);
        let what = match error {
            Some(error) => format!("failed: {error}"),
            None if took_ms > max_ms => format!("took {took_ms} ms, more than {max_ms}"),
            None => return,
        };
        let what = format!("uid {}: a call in the calm phase {what}", call.uid);
        self.answer_judge.lock().broken_rule.get_or_insert(what);
    }

    /// Sets the simulated time, ms.
    pub fn set_now_ms(&self, now: u64) {
        self.now_ms.store(now, Relaxed);
    }

    /// Returns a timestamp that is greater than all earlier ones.
    fn next_timestamp(&self) -> u64 {
        let taken = self.timestamps_taken.fetch_add(1, Relaxed);
        self.now_ms() * 1_000_000_000 + taken
    }

    /// Returns a number that no holder had before.
    pub fn next_holder(&self) -> u64 {
        self.holders_begun.fetch_add(1, Relaxed)
    }

    /// Returns a request for ids that begins now; None: the cluster has no family.
    pub fn begin_ids(&self, receiver: IdReceiver, is_holder: bool) -> Option<IdCall> {
        let judge = self.id_judge.as_ref()?.lock();
        Some(judge.begin_call(self.now_ms(), receiver, is_holder))
    }

    /// Records the ids that a request of a cluster got, and judges them.
    pub fn record_ids(&self, cluster: u64, call: &IdCall, ids: &[u64]) {
        let (machine, number) = call.receiver;
        let (first, count) = (ids.first().copied().unwrap_or(0), ids.len() as u64);
        let numbers = [4, machine.into(), first, count];
        self.net.with_trace(|now, trace| {
            trace.record_event(now, &numbers, || {
                format!(
                    "{} {number} received {count} ids from {first} on",
                    machine_name(machine)
                )
            });
        });
        if let Some(judge) = &self.id_judge {
            judge.lock().judge_ids(self.now_ms(), cluster, call, ids);
        }
    }

    /// Returns the first broken rule of ids, once.
    pub fn take_broken_id_rule(&self) -> Option<String> {
        self.id_judge.as_ref()?.lock().broken_rule.take()
    }

    /// Returns the number of ids that callers received.
    pub fn id_count(&self) -> u64 {
        let judge = self.id_judge.as_ref();
        judge.map_or(0, |judge| judge.lock().id_count())
    }

    /// Returns whether a machine received ids after a time (ms).
    pub fn has_ids_since(&self, machine: MachineId, since_ms: u64) -> bool {
        let judge = self.id_judge.as_ref().map(|judge| judge.lock());
        let received_at_ms = judge.and_then(|judge| judge.received_at_ms(machine));
        received_at_ms.is_some_and(|at_ms| at_ms > since_ms)
    }

    /// Records the end of a call that `client` made, and judges its answer.
    pub fn record_call(
        &self,
        client: &Client,
        call: &PendingCall,
        kind: CallKind,
        answered: Result<(CallAnswer, u64), &Error>,
    ) {
        let end = self.next_timestamp();
        // A client belongs to one cluster for its life.
        let cluster = client.cluster_tag();
        let (words, value) = match answered {
            Ok((answer, epoch)) => (
                format!("{answer:?} at epoch {epoch}"),
                answer_value(&answer),
            ),
            Err(e) => (format!("error: {e}"), 0),
        };
        if call.is_calm {
            self.judge_calm_call(call, answered.as_ref().err().copied());
        }
        let error = answered.as_ref().err().map(ToString::to_string);
        let mut unanswered = self.unanswered_calls.lock();
        unanswered.record_end(call.caller, call.uid, error);
        drop(unanswered);
        let numbers = [3, call.caller, call.uid, value];
        self.net.with_trace(|now, trace| {
            trace.record_event(now, &numbers, || {
                format!("call {} {kind:?} uid {}: {words}", call.caller, call.uid)
            });
        });
        let outcome = match answered {
            Ok((answer, epoch)) => {
                self.last_cluster_tag.store(cluster, Relaxed);
                self.answered_calls.fetch_add(1, Relaxed);
                self.answer_judge.lock().judge_answer(
                    self.now_ms(),
                    (cluster, call.uid),
                    call.floor,
                    call.is_strict,
                    &answer,
                );
                CallOutcome::Ok {
                    end,
                    epoch: Some(epoch),
                    answer,
                }
            }
            Err(_) => CallOutcome::Error { end, kind },
        };
        self.calls.lock().push(RecordedCall {
            sequence: SequenceName::for_uid(&format!("{NAMESPACE}-{cluster:x}"), call.uid),
            begin: call.timestamp,
            outcome,
        });
    }

    /// Returns a call that begins now.
    pub fn begin_call(
        &self,
        client: &Client,
        caller: u64,
        uid: u64,
        is_strict: bool,
    ) -> PendingCall {
        let now = self.now_ms();
        self.unanswered_calls
            .lock()
            .record_attempt(caller, uid, now);
        PendingCall {
            caller,
            uid,
            is_strict,
            timestamp: self.next_timestamp(),
            at_ms: now,
            is_calm: self.calm_until_ms.load(Relaxed) > 0,
            floor: self
                .answer_judge
                .lock()
                .highest_received((client.cluster_tag(), uid)),
        }
    }
}

/// Call that has begun and not ended.
pub struct PendingCall {
    caller: u64,
    uid: u64,
    is_strict: bool,
    timestamp: u64,
    at_ms: u64,
    /// Whether it began in the calm phase.
    is_calm: bool,
    /// Highest number of its sequence that a caller had received when it began.
    pub floor: u64,
}

fn answer_value(answer: &CallAnswer) -> u64 {
    match answer {
        CallAnswer::Next { first, .. } => *first,
        CallAnswer::Exact(n) | CallAnswer::AtMost(n) => *n,
        CallAnswer::Never => 0,
        CallAnswer::RaiseTo { to, .. } => *to,
    }
}
