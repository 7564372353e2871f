//! Judges every id when its caller receives it. It reads ids by itself: a judge that reused the
//! codec of the servers would share its mistakes.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::{Rates, START_UNIX_NS};
use crate::network::MachineId;
use crate::plan::{FamilySetup, RunPlan};

/// Epoch of all families, as Unix time in milliseconds.
pub const EPOCH_MS: u64 = START_UNIX_NS / 1_000_000 - 86_400_000;
/// Most time by which an answer about a clock, and roundings, move the time in ids, ms.
const READING_ERROR_MS: u64 = 200;

/// Receiver of ids: a machine, and which of its clients or holders. The ids of one rise.
pub type IdReceiver = (MachineId, u64);

/// Maker of the ids of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TickMaker {
    /// Any AllocSvr: callers receive no more of it.
    AllocSvr,
    /// The holder that received them.
    Holder(IdReceiver),
}

/// Request for ids that has begun.
pub struct IdCall {
    /// Receiver of the ids.
    pub receiver: IdReceiver,
    /// Whether the receiver makes them itself.
    pub is_holder: bool,
    /// Simulated time at which it began, ms.
    pub begin_ms: u64,
    /// Greatest id that its receiver had when it began.
    floor: Option<u64>,
}

/// Judge of the ids of a run.
pub struct IdJudge {
    family: FamilySetup,
    /// Maximum distance of the time in an id from that of the world, ms; None: any.
    time_error_max_ms: Option<u64>,
    /// Whether clocks drift, so that the distance grows during a run.
    has_drift: bool,
    /// Ids by cluster.
    ids: BTreeSet<(u64, u64)>,
    /// Maker of each tick, by cluster, worker and tick.
    makers: BTreeMap<(u64, u64, u64), TickMaker>,
    greatest: BTreeMap<IdReceiver, u64>,
    /// Time at which each machine last received ids, ms.
    received_at_ms: BTreeMap<MachineId, u64>,
    /// First broken rule.
    pub broken_rule: Option<String>,
}

impl IdJudge {
    /// Creates the judge of a plan; None: the plan has no family.
    pub fn new(plan: &RunPlan) -> Option<IdJudge> {
        let family = plan.setup.family?;
        let reach_ms = u64::from(family.window_ms) + u64::from(family.ahead_ms);
        let error_ms = reach_ms + family.unit_ms + READING_ERROR_MS;
        Some(IdJudge {
            family,
            time_error_max_ms: plan.bounds_id_time.then_some(error_ms),
            has_drift: plan.rates.iter().any(|rates| *rates != Rates::TRUE),
            ids: BTreeSet::new(),
            makers: BTreeMap::new(),
            greatest: BTreeMap::new(),
            received_at_ms: BTreeMap::new(),
            broken_rule: None,
        })
    }

    /// Begins a request.
    pub fn begin_call(&self, now_ms: u64, receiver: IdReceiver, is_holder: bool) -> IdCall {
        IdCall {
            receiver,
            is_holder,
            begin_ms: now_ms,
            floor: self.greatest.get(&receiver).copied(),
        }
    }

    /// Returns the number of ids of all clusters.
    pub fn id_count(&self) -> u64 {
        self.ids.len() as u64
    }

    /// Returns the time at which a machine last received ids, ms.
    pub fn received_at_ms(&self, machine: MachineId) -> Option<u64> {
        self.received_at_ms.get(&machine).copied()
    }

    /// Judges the ids that a request of a cluster got.
    pub fn judge_ids(&mut self, now_ms: u64, cluster: u64, call: &IdCall, ids: &[u64]) {
        let mut floor = call.floor;
        for id in ids {
            let broken = self.judge_id(now_ms, cluster, call, *id);
            let falls = floor.is_some_and(|floor| floor >= *id);
            let falls = falls.then(|| format!("{id} is not above {floor:?}"));
            if let Some(what) = broken.or(falls) {
                let text = format!("at {now_ms}: {:?} received {what}", call.receiver);
                self.broken_rule.get_or_insert(text);
            }
            floor = Some(*id);
        }
        let greatest = self.greatest.entry(call.receiver).or_default();
        *greatest = floor.map_or(*greatest, |last| last.max(*greatest));
        self.received_at_ms.insert(call.receiver.0, now_ms);
    }

    fn judge_id(&mut self, now_ms: u64, cluster: u64, call: &IdCall, id: u64) -> Option<String> {
        let (tick, worker) = self.family.read_id(id);
        if !self.ids.insert((cluster, id)) {
            return Some(format!("{id} of worker {worker}, which exists"));
        }
        let maker = match call.is_holder {
            true => TickMaker::Holder(call.receiver),
            false => TickMaker::AllocSvr,
        };
        let other = *self.makers.entry((cluster, worker, tick)).or_insert(maker);
        if other != maker {
            return Some(format!(
                "{id} of worker {worker} in tick {tick}, of which {other:?} makes ids"
            ));
        }
        let begin_ms = EPOCH_MS + tick * self.family.unit_ms;
        let time_of = |simulated_ms: u64| START_UNIX_NS / 1_000_000 + simulated_ms;
        let drift_ms = if self.has_drift { now_ms / 8 } else { 0 };
        let error_ms = self.time_error_max_ms? + drift_ms;
        let is_near =
            (time_of(call.begin_ms) - error_ms..=time_of(now_ms) + error_ms).contains(&begin_ms);
        (!is_near).then(|| {
            let ahead_ms = begin_ms as i64 - time_of(now_ms) as i64;
            format!("{id}, whose time is {ahead_ms} ms ahead, more than {error_ms}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::draw_plan_with_classes;

    const FAMILY: FamilySetup = FamilySetup {
        unit_ms: 1,
        worker_bits: 3,
        seq_bits: 2,
        window_ms: 1_000,
        ahead_ms: 20,
        workers_per_holder: 1,
    };

    fn new_judge(has_drift: bool) -> IdJudge {
        let mut plan = draw_plan_with_classes(1, 1_000, &[]);
        plan.setup.family = Some(FAMILY);
        plan.bounds_id_time = true;
        IdJudge {
            has_drift,
            ..IdJudge::new(&plan).unwrap()
        }
    }

    /// Returns an id whose time is `ahead_ms` ahead of the simulated time 5,000.
    fn id(ahead_ms: i64, worker: u64, seq: u64) -> u64 {
        let tick = (86_400_000 + 5_000_i64 + ahead_ms) as u64;
        tick << 5 | worker << 2 | seq
    }

    /// Returns the rule that ids break, each of them with its receiver; 1 and 2 are clients.
    fn find_broken(calls: &[(u32, u64)]) -> Option<String> {
        let mut judge = new_judge(false);
        for (machine, id) in calls {
            let call = judge.begin_call(4_990, (*machine, 0), *machine > 2);
            judge.judge_ids(5_000, 7, &call, &[*id]);
        }
        judge.broken_rule
    }

    #[test]
    fn each_rule_is_broken_by_its_ids_only() {
        let far = 1_000 + 20 + 1 + READING_ERROR_MS as i64;
        let right = [(1, id(0, 1, 0)), (2, id(0, 1, 1)), (3, id(0, 2, 1))];
        assert_eq!(find_broken(&right), None);
        assert_eq!(
            find_broken(&[(1, id(far, 1, 0)), (2, id(-far - 10, 1, 0))]),
            None
        );
        for (calls, what) in [
            ([(1, id(0, 1, 0)), (2, id(0, 1, 0))], "which exists"),
            ([(1, id(0, 1, 0)), (3, id(0, 1, 1))], "AllocSvr makes ids"),
            ([(3, id(0, 1, 0)), (4, id(0, 1, 1))], "Holder((3, 0)) makes"),
            ([(1, id(0, 1, 1)), (1, id(0, 1, 0))], "not above"),
            ([(3, id(1, 1, 0)), (3, id(0, 1, 0))], "not above"),
            ([(1, id(0, 1, 0)), (1, id(far + 1, 1, 0))], "ms ahead"),
            ([(2, id(0, 1, 0)), (3, id(-far - 11, 1, 0))], "ms ahead"),
        ] {
            let broken = find_broken(&calls).unwrap_or_default();
            assert!(broken.contains(what), "{what}: {broken}");
        }
    }

    #[test]
    fn ids_of_one_answer_rise_and_other_clusters_are_apart() {
        let mut judge = new_judge(true);
        let (first, second) = (id(0, 1, 0), id(0, 1, 1));
        for cluster in [1, 2] {
            let call = judge.begin_call(5_000, (1, cluster), false);
            judge.judge_ids(5_000, cluster, &call, &[first, second]);
        }
        assert_eq!(judge.broken_rule, None);
        let call = judge.begin_call(5_000, (2, 1), false);
        judge.judge_ids(5_000, 1, &call, &[id(1, 1, 1), id(1, 1, 0)]);
        assert!(judge.broken_rule.is_some());
    }
}
