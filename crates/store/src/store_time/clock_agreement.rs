//! The time on which the wall clocks of the stores agree.
//!
//! Invariant: a minority of the wall clocks moves the agreed time nowhere, also if one of them is
//! that of the leader. Schedule that breaks it: the clock of the leader jumps by a year between two
//! rounds of requests. If the others were kept as distances from it, they would jump with it. So
//! what is kept of each store is its time, which then continues with BOOTTIME of the leader.

use std::collections::BTreeMap;

use super::{WallReading, ns_since};

/// Maximum age of an answer that counts.
const ANSWER_AGE_MAX_NS: u64 = 5_000_000_000;
/// Maximum age of the last agreement of a majority that still holds.
const AGREEMENT_AGE_MAX_NS: u64 = 60_000_000_000;

/// Time on which clocks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgreedTime {
    /// Unix time, nanoseconds.
    pub(crate) unix_ns: u64,
    /// Whether answers of a majority of the voters decide it, with more than one clock.
    pub(crate) is_confirmed: bool,
}

/// Wall clocks of the other stores, as the leader reads them.
#[derive(Debug, Default)]
pub(crate) struct ClockAgreement {
    answers: BTreeMap<u64, WallReading>,
    last_confirmed: Option<WallReading>,
}

impl ClockAgreement {
    /// Records the wall clock of a store: `unix_ns` is its answer, `boot_ns` the middle of the
    /// round trip by the clock of this process.
    pub(crate) fn record(&mut self, store: u64, answer: WallReading) {
        self.answers.insert(store, answer);
    }

    /// Returns the distance of each store's clock from this one's, in nanoseconds, of answers that
    /// count.
    pub(crate) fn offsets_ns(&self, own: WallReading) -> BTreeMap<u64, i64> {
        let fresh = self.answers.iter().filter_map(|(store, answer)| {
            let there = continued(*answer, own, ANSWER_AGE_MAX_NS)?;
            Some((*store, there.cast_signed() - own.unix_ns.cast_signed()))
        });
        fresh.collect()
    }

    /// Returns the agreed time. `voters` are the ids of all voters, `own_id` is this store's.
    pub(crate) fn agree(&mut self, own: WallReading, own_id: u64, voters: &[u64]) -> AgreedTime {
        self.answers.retain(|store, _| voters.contains(store));
        let others = voters.iter().filter(|voter| **voter != own_id);
        let others = others.filter_map(|voter| {
            let answer = self.answers.get(voter)?;
            continued(*answer, own, ANSWER_AGE_MAX_NS)
        });
        let mut clocks: Vec<u64> = others.chain([own.unix_ns]).collect();
        if clocks.len() > 1 && clocks.len() > voters.len() / 2 {
            clocks.sort_unstable();
            // Of an even number the lower one: a clock that is ahead moves nothing.
            let median = clocks[(clocks.len() - 1) / 2];
            self.last_confirmed = Some(WallReading {
                unix_ns: median,
                ..own
            });
            return AgreedTime {
                unix_ns: median,
                is_confirmed: true,
            };
        }
        let last = self.last_confirmed;
        let last = last.and_then(|last| continued(last, own, AGREEMENT_AGE_MAX_NS));
        AgreedTime {
            unix_ns: last.unwrap_or(own.unix_ns),
            is_confirmed: false,
        }
    }
}

/// Returns what a clock shows now; None: its reading is older than `age_max_ns`.
fn continued(reading: WallReading, now: WallReading, age_max_ns: u64) -> Option<u64> {
    let age_ns = ns_since(reading, now);
    (age_ns <= age_max_ns).then(|| reading.unix_ns.saturating_add(age_ns))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Some day of 2026, in nanoseconds.
    const DAY: u64 = 1_795_000_000_000_000_000;
    const YEAR: u64 = 31_536_000_000_000_000;

    fn reading(unix_ns: u64, boot_ns: u64) -> WallReading {
        WallReading { unix_ns, boot_ns }
    }

    proptest! {
        /// Two of three clocks are right within 50 ms, and the third shows anything, also if it is
        /// that of the leader and moves between the answers and now.
        #[test]
        fn one_lying_clock_of_three_moves_nothing(
            lies in prop::array::uniform2(0..2 * YEAR),
            liar in 0_u64..3,
            errors in prop::array::uniform3(0_u64..100_000_000),
            age in 0..ANSWER_AGE_MAX_NS,
        ) {
            let clock = |store: u64, at: usize, passed: u64| match store == liar {
                true => DAY - YEAR + lies[at],
                false => DAY + passed + errors[store as usize] - 50_000_000,
            };
            let mut agreement = ClockAgreement::default();
            for store in [1, 2] {
                agreement.record(store, reading(clock(store, 0, 0), 7));
            }
            let own = reading(clock(0, 1, age), 7 + age);
            let agreed = agreement.agree(own, 0, &[0, 1, 2]);
            prop_assert!(agreed.is_confirmed);
            prop_assert!(agreed.unix_ns.abs_diff(DAY + age) <= 50_000_000, "{agreed:?}");
        }
    }

    #[test]
    fn answers_count_for_five_seconds_and_their_agreement_for_a_minute() {
        let mut agreement = ClockAgreement::default();
        let voters = [1, 2, 3];
        let own = |passed: u64| reading(DAY + YEAR + passed, passed);
        let alone = AgreedTime {
            unix_ns: DAY + YEAR,
            is_confirmed: false,
        };
        assert_eq!(agreement.agree(own(0), 1, &voters), alone);
        agreement.record(2, reading(DAY, 0));
        // That of a store that is no voter.
        agreement.record(9, reading(DAY + YEAR, 0));
        for (passed, is_confirmed) in [
            (5_000_000_000, true),
            (5_000_000_001, false),
            (65_000_000_000, false),
        ] {
            let unix_ns = DAY + passed;
            let expected = AgreedTime {
                unix_ns,
                is_confirmed,
            };
            assert_eq!(agreement.agree(own(passed), 1, &voters), expected);
        }
        let agreed = agreement.agree(own(65_000_000_001), 1, &voters);
        assert_eq!(agreed.unix_ns, DAY + YEAR + 65_000_000_001);
    }

    #[test]
    fn the_only_store_is_not_confirmed() {
        let mut agreement = ClockAgreement::default();
        assert!(!agreement.agree(reading(DAY, 0), 1, &[1]).is_confirmed);
    }
}
