//! What clients were answered: recorded for the judges.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use seqsvr_check::{Answer, Call, Kind, Outcome, Sequence};
use seqsvr_client::{Client, Error};

use crate::judge::online::Online;
use crate::net::{MachineId, Net};

/// Namespace of the calls.
pub const NAMESPACE: &str = "d";

/// What all clients of a run share with the world.
pub struct Shared {
    /// The network.
    pub net: Net,
    /// World time, ms.
    now: AtomicU64,
    /// Counts stamps, so that each is unique.
    moment: AtomicU64,
    /// Clusters that operators began to make.
    clusters: AtomicU64,
    /// Clients that have been answered once.
    pub ready: AtomicU64,
    /// No call is begun after this (ms).
    pub stop_at: AtomicU64,
    /// Clients whose last calls were all answered.
    pub finished: AtomicU64,
    /// The last calls of each sequence may begin.
    pub is_last_round: AtomicBool,
    /// Until when the calm world is watched (ms); 0: it is not yet.
    pub calm_until: AtomicU64,
    /// Longest time of a call in a calm world, ms.
    calm_call_max_ms: AtomicU64,
    /// Clients that made their last call in the calm world.
    pub calmed: AtomicU64,
    /// Tag of the cluster that answered last.
    pub cluster: AtomicU64,
    /// All calls.
    pub calls: Mutex<Vec<Call>>,
    /// Calls that were answered.
    pub answered: AtomicU64,
    /// Judges every answer.
    pub online: Mutex<Online>,
    /// What operators did, for the world to follow.
    pub reports: Mutex<Vec<Report>>,
}

/// Something that an operator did.
pub enum Report {
    /// The store of this machine is no member any more.
    Removed(MachineId),
    /// The process of this machine is of no use: its store was refused.
    Refused(MachineId),
    /// The cluster cannot be made as it is: all disks must be wiped.
    CannotMake,
}

impl Shared {
    /// Nothing has been called.
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

    /// Returns the world time, ms.
    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    /// World time in a form that is unique: later stamps are greater.
    /// Returns the id of a cluster that was not made before.
    pub fn next_cluster(&self) -> u128 {
        u128::from(self.clusters.fetch_add(1, Relaxed)) + 7
    }

    /// Watches the calls until a time (ms): none may fail, or take longer than so long.
    pub fn begin_calm(&self, until: u64, call_max_ms: u64) {
        self.calm_call_max_ms.store(call_max_ms, Relaxed);
        self.calm_until.store(until, Relaxed);
    }

    /// Judges a call of the calm world.
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

    /// Sets the world time, ms.
    pub fn set_now(&self, now: u64) {
        self.now.store(now, Relaxed);
    }

    fn stamp(&self) -> u64 {
        let moment = self.moment.fetch_add(1, Relaxed);
        self.now() * 1_000_000_000 + moment
    }

    /// Records how a call ended, which `client` made.
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

    /// Notes that a call begins.
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

/// A call that has begun.
pub struct Begun {
    caller: u64,
    uid: u64,
    is_strict: bool,
    stamp: u64,
    at_ms: u64,
    /// Whether it began in the calm world.
    is_calm: bool,
    /// Highest number that had been answered when it began.
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
