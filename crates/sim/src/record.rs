//! State that clients share with the world, and the record of all calls for the judges.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seqsvr_check::{Answer, Call, Kind, Outcome, Sequence};
use seqsvr_client::{Client, Error};

use crate::judge::online::Online;
use crate::net::{MachineId, Net};

/// Namespace of all calls.
pub const NAMESPACE: &str = "d";

/// State that the clients of a run share with the world.
pub struct Shared {
    /// Simulated network.
    pub net: Net,
    /// Simulated time, ms.
    now: AtomicU64,
    /// Number of timestamps taken, which makes each one unique.
    moment: AtomicU64,
    /// Number of clusters that operators began to initialize.
    clusters: AtomicU64,
    /// Number of clients that have got their first answer.
    pub ready: AtomicU64,
    /// Time after which callers begin no call, ms.
    pub stop_at: AtomicU64,
    /// Number of clients that got an answer to each call of the last round.
    pub finished: AtomicU64,
    /// Whether clients may begin the last round of calls.
    pub is_last_round: AtomicBool,
    /// End of the calm phase, ms; 0: the phase has not begun.
    pub calm_until: AtomicU64,
    /// Maximum duration of a call in the calm phase, ms. A longer one breaks a rule.
    calm_call_max_ms: AtomicU64,
    /// Number of clients that have made all calls of the calm phase.
    pub calmed: AtomicU64,
    /// Tag of the cluster that gave the last answer.
    pub cluster: AtomicU64,
    /// All calls that have ended.
    pub calls: Mutex<Vec<Call>>,
    /// Number of calls that got an answer.
    pub answered: AtomicU64,
    /// Judge of every answer.
    pub online: Mutex<Online>,
    /// Actions of operators that the world has not followed yet.
    pub reports: Mutex<Vec<Report>>,
}

/// Result of an operator's action.
pub enum Report {
    /// The store of this machine has left the cluster.
    Removed(MachineId),
    /// The cluster rejected the store of this machine, so its process is useless.
    Refused(MachineId),
    /// The cluster cannot be initialized in its present state: all disks must be wiped.
    CannotMake,
}

impl Shared {
    /// Creates the state of a run without calls.
    pub fn new(net: Net, is_ordered: bool) -> Shared {
        Shared {
            net,
            now: AtomicU64::new(0),
            moment: AtomicU64::new(0),
            clusters: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            stop_at: AtomicU64::new(u64::MAX),
            finished: AtomicU64::new(0),
            is_last_round: AtomicBool::new(false),
            calm_until: AtomicU64::new(0),
            calm_call_max_ms: AtomicU64::new(0),
            calmed: AtomicU64::new(0),
            cluster: AtomicU64::new(0),
            calls: Mutex::default(),
            answered: AtomicU64::new(0),
            online: Mutex::new(Online::new(is_ordered)),
            reports: Mutex::default(),
        }
    }

    /// Returns the simulated time, ms.
    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// Returns a cluster id that this run has not used yet.
    pub fn next_cluster(&self) -> u128 {
        u128::from(self.clusters.fetch_add(1, Relaxed)) + 7
    }

    /// Begins the calm phase, until the time `until` (ms): no call may fail or take longer than
    /// `call_max_ms`.
    pub fn begin_calm(&self, until: u64, call_max_ms: u64) {
        self.calm_call_max_ms.store(call_max_ms, Relaxed);
        self.calm_until.store(until, Relaxed);
    }

    /// Judges a call that began in the calm phase.
    fn judge_calm(&self, begun: &Begun, error: Option<&Error>) {
        let took_ms = self.now() - begun.at_ms;
        let max_ms = self.calm_call_max_ms.load(Relaxed);
        let what = match error {
            Some(error) => format!("failed: {error}"),
            None if took_ms > max_ms => format!("took {took_ms} ms, more than {max_ms}"),
            None => return,
        };
        let what = format!("uid {}: a call of the calm world {what}", begun.uid);
        self.online.lock().broken.get_or_insert(what);
    }

    /// Sets the simulated time, ms.
    pub fn set_now(&self, now: u64) {
        self.now.store(now, Relaxed);
    }

    /// Returns a timestamp that is greater than all earlier ones.
    fn stamp(&self) -> u64 {
        let moment = self.moment.fetch_add(1, Relaxed);
        self.now() * 1_000_000_000 + moment
    }

    /// Records the end of a call that `client` made, and judges its answer.
    pub fn record(
        &self,
        client: &Client,
        begun: &Begun,
        kind: Kind,
        answered: Result<(Answer, u64), &Error>,
    ) {
        let end = self.stamp();
        // A client belongs to one cluster for its life.
        let cluster = client.cluster_tag();
        let (words, value) = match answered {
            Ok((answer, epoch)) => (format!("{answer:?} at epoch {epoch}"), value_of(&answer)),
            Err(e) => (format!("error: {e}"), 0),
        };
        if begun.is_calm {
            self.judge_calm(begun, answered.as_ref().err().copied());
        }
        let numbers = [3, begun.caller, begun.uid, value];
        self.net.with_trace(|now, trace| {
            trace.note(now, &numbers, || {
                format!("call {} {kind:?} uid {}: {words}", begun.caller, begun.uid)
            });
        });
        let outcome = match answered {
            Ok((answer, epoch)) => {
                self.cluster.store(cluster, Relaxed);
                self.answered.fetch_add(1, Relaxed);
                self.online.lock().judge(
                    self.now(),
                    (cluster, begun.uid),
                    begun.floor,
                    begun.is_strict,
                    &answer,
                );
                Outcome::Ok {
                    end,
                    epoch: Some(epoch),
                    answer,
                }
            }
            Err(_) => Outcome::Error { end, kind },
        };
        self.calls.lock().push(Call {
            sequence: Sequence::uid(&format!("{NAMESPACE}-{cluster:x}"), begun.uid),
            begin: begun.stamp,
            outcome,
        });
    }

    /// Returns a call that begins now.
    pub fn begin(&self, client: &Client, caller: u64, uid: u64, is_strict: bool) -> Begun {
        Begun {
            caller,
            uid,
            is_strict,
            stamp: self.stamp(),
            at_ms: self.now(),
            is_calm: self.calm_until.load(Relaxed) > 0,
            floor: self.online.lock().highest((client.cluster_tag(), uid)),
        }
    }
}

/// Call that has begun and not ended.
pub struct Begun {
    caller: u64,
    uid: u64,
    is_strict: bool,
    stamp: u64,
    at_ms: u64,
    /// Whether it began in the calm phase.
    is_calm: bool,
    /// Highest number of its sequence that a caller had received when it began.
    pub floor: u64,
}

fn value_of(answer: &Answer) -> u64 {
    match answer {
        Answer::Next { first, .. } => *first,
        Answer::Exact(n) | Answer::AtMost(n) => *n,
        Answer::Never => 0,
        Answer::RaiseTo { to, .. } => *to,
    }
}
