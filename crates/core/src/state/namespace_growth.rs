//! Numbers that applied entries add to a namespace: in all, and in the minute that added most.
//!
//! An operator who restores a backup needs to know how far the old cluster can have continued
//! since. So every replica counts what it applies, whether it leads or not.
//!
//! Invariant: no minute of the time watched added more numbers than `peak`. An average over that
//! time is no such bound. Schedule that breaks it: a night of 10 numbers a second, a day of 10,000,
//! a backup in the morning: the average is the night's, the numbers after the backup are the day's.

use std::collections::BTreeMap;
use std::time::Duration;

use super::State;
use crate::command::{Batch, Command, Reply};
use crate::ids::{NamespaceId, SectionKey};

/// Length of a bucket, seconds.
const BUCKET_SECONDS: u64 = 10;
/// Buckets summed: any 60 s in a row lie within this number of buckets.
const BUCKETS_PER_PEAK: usize = 7;

/// Numbers added while a process watched, by namespace.
#[derive(Clone, Debug, Default)]
pub struct NamespaceGrowth {
    namespaces: BTreeMap<NamespaceId, GrowthCounts>,
}

/// Numbers added to one namespace.
#[derive(Clone, Debug, Default)]
struct GrowthCounts {
    total: u64,
    /// Largest sum of [`BUCKETS_PER_PEAK`] buckets in a row.
    peak: u64,
    /// Number of the newest bucket, since the count began.
    newest: u64,
    buckets: [u64; BUCKETS_PER_PEAK],
}

/// Sections that an entry opens or raises, one a command, and their max_seq before it.
#[derive(Debug)]
pub struct BatchBaseline {
    sections: Vec<Option<SectionKey>>,
    max_seq: BTreeMap<SectionKey, u64>,
}

impl BatchBaseline {
    /// Reads the state to which the batch will be applied next.
    pub fn read(batch: &Batch, state: &State) -> BatchBaseline {
        let sections = batch.commands.iter().map(|command| match command {
            Command::Open { fence, .. } | Command::Raise { fence, .. } => Some(fence.section),
            _ => None,
        });
        let sections: Vec<_> = sections.collect();
        let at = |key: &SectionKey| Some((*key, state.section(*key)?.max_seq));
        BatchBaseline {
            max_seq: sections.iter().flatten().filter_map(at).collect(),
            sections,
        }
    }
}

impl NamespaceGrowth {
    /// Counts the numbers that a batch added; `state` is the one after it, `at` the time since the
    /// count began.
    pub fn add(
        &mut self,
        mut before: BatchBaseline,
        replies: &[Reply],
        state: &State,
        at: Duration,
    ) {
        for (key, reply) in before.sections.iter().zip(replies) {
            let (Some(key), Reply::Opened { max_seq, .. } | Reply::Raised { max_seq, .. }) =
                (key, reply)
            else {
                continue;
            };
            let Some(namespace) = state.namespace(key.namespace) else {
                continue;
            };
            let progression = namespace.spec.progression;
            let was = before
                .max_seq
                .entry(*key)
                .or_insert(progression.max_seq_floor());
            let more = progression.count_between(*was, *max_seq);
            *was = *max_seq;
            let counts = self.namespaces.entry(key.namespace).or_default();
            counts.add(more, at.as_secs() / BUCKET_SECONDS);
        }
    }

    /// Restarts the count after entries that this replica did not apply; the peak is kept.
    pub fn restart(&mut self) {
        for counts in self.namespaces.values_mut() {
            *counts = GrowthCounts {
                peak: counts.peak,
                ..GrowthCounts::default()
            };
        }
    }

    /// Returns the numbers added in all, by namespace.
    pub fn totals(&self) -> Vec<(NamespaceId, u64)> {
        let totals = self.namespaces.iter().map(|(id, c)| (*id, c.total));
        totals.collect()
    }

    /// Returns the numbers of the minute that added most, by namespace.
    pub fn peaks(&self) -> Vec<(NamespaceId, u64)> {
        let peaks = self.namespaces.iter().map(|(id, c)| (*id, c.peak));
        peaks.collect()
    }
}

impl GrowthCounts {
    fn add(&mut self, numbers: u64, bucket: u64) {
        let passed = bucket
            .saturating_sub(self.newest)
            .min(BUCKETS_PER_PEAK as u64);
        for i in 0..passed {
            self.buckets[((bucket - i) % BUCKETS_PER_PEAK as u64) as usize] = 0;
        }
        self.newest = self.newest.max(bucket);
        let now = &mut self.buckets[(self.newest % BUCKETS_PER_PEAK as u64) as usize];
        *now = now.saturating_add(numbers);
        let sum = self
            .buckets
            .iter()
            .fold(0u64, |sum, n| sum.saturating_add(*n));
        self.peak = self.peak.max(sum);
        self.total = self.total.saturating_add(numbers);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::command::{Fence, OpenSession, RaiseCause};
    use crate::ids::{ClusterId, Epoch, Generation, Nonce, SectionId, SessionId, Slot};

    const FENCE: Fence = Fence {
        slot: Slot(0),
        epoch: Epoch(1),
        section: SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(0),
        },
    };

    fn raise(to: u64) -> Command {
        Command::Raise {
            fence: FENCE,
            generation: Generation(1),
            to,
            cause: RaiseCause::Refill,
        }
    }

    /// A state of one slot with an owner, and what is counted of it.
    #[derive(Default)]
    struct Counted {
        state: State,
        growth: NamespaceGrowth,
    }

    impl Counted {
        fn new() -> Counted {
            let mut counted = Counted::default();
            let setup = vec![
                Command::Init {
                    cluster: ClusterId(1),
                    lease_ms: 3_000,
                    slots: 1,
                },
                Command::OpenSession(OpenSession {
                    name: "a1".into(),
                    address: "x:1".into(),
                    incarnation: 1,
                    nonce: Nonce(1),
                    proof: None,
                }),
                Command::Assign {
                    slot: Slot(0),
                    from: Epoch(0),
                    to: SessionId(1),
                },
            ];
            counted.apply(0, setup);
            counted
        }

        fn apply(&mut self, second: u64, commands: Vec<Command>) -> Vec<(NamespaceId, u64)> {
            let batch = Batch { commands };
            let before = BatchBaseline::read(&batch, &self.state);
            let replies = self.state.apply(1, &batch, &mut BTreeSet::new());
            let at = Duration::from_secs(second);
            self.growth.add(before, &replies, &self.state, at);
            self.growth.totals()
        }

        fn open(&mut self) -> Vec<(NamespaceId, u64)> {
            self.apply(
                0,
                vec![Command::Open {
                    fence: FENCE,
                    expected: Generation(0),
                    nonce: Nonce(2),
                    step: 100,
                }],
            )
        }
    }

    fn one(n: u64) -> Vec<(NamespaceId, u64)> {
        vec![(NamespaceId(1), n)]
    }

    #[test]
    fn growth_counts_added_numbers_once() {
        let mut counted = Counted::new();
        assert_eq!(counted.open(), one(100));
        // A retry of each, and two raises of one section in one entry.
        assert_eq!(counted.open(), one(100));
        assert_eq!(counted.apply(0, vec![raise(150), raise(150)]), one(150));
        assert_eq!(counted.apply(0, vec![raise(150), raise(400)]), one(400));
        // Rejected: nothing was added.
        let stale = Command::Raise {
            fence: FENCE,
            generation: Generation(9),
            to: 500,
            cause: RaiseCause::Refill,
        };
        assert_eq!(counted.apply(0, vec![stale]), one(400));
    }

    /// Schedule: a burst of 30 s over the end of a minute, then hours with few numbers.
    #[test]
    fn growth_peak_covers_every_minute() {
        let mut counted = Counted::new();
        counted.open();
        let mut max_seq = 100;
        for second in 45..75 {
            max_seq += 1_000;
            counted.apply(second, vec![raise(max_seq)]);
        }
        for hour in 1..10 {
            max_seq += 1;
            counted.apply(hour * 3_600, vec![raise(max_seq)]);
        }
        assert_eq!(counted.growth.totals(), one(max_seq));
        let peak = counted.growth.peaks()[0].1;
        assert!((30_000..=30_101).contains(&peak), "{peak}");
    }

    /// Any 60 s in a row are covered; no more than 70 s are.
    #[test]
    fn growth_peak_of_a_steady_rate_is_one_minute() {
        let mut counted = Counted::new();
        counted.open();
        let mut max_seq = 100;
        for second in 100..1_000 {
            max_seq += 10;
            counted.apply(second, vec![raise(max_seq)]);
        }
        assert_eq!(counted.growth.peaks(), one(700));
    }

    #[test]
    fn growth_restart_keeps_only_the_peak() {
        let mut counted = Counted::new();
        counted.open();
        counted.growth.restart();
        assert_eq!(counted.growth.totals(), one(0));
        assert_eq!(counted.growth.peaks(), one(100));
        assert_eq!(counted.apply(1, vec![raise(150)]), one(50));
        assert_eq!(counted.growth.peaks(), one(100));
    }
}
