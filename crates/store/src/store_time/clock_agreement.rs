//! The time on which the wall clocks of the stores agree.
//!
//! Invariant: a minority of the wall clocks moves the agreed time nowhere, also if one of them is
//! that of the leader. Schedule that breaks it: the clock of the leader jumps by a year between two
//! rounds of requests. If the others were kept as distances from it, they would jump with it. So
//! what is kept of each store is its time, which then continues with BOOTTIME of the leader.

use std::collections::BTreeMap;

use super::{NS_PER_MS, WallReading, ns_since};

/// Maximum age of an answer by which a store takes part in a majority.
const ANSWER_AGE_MAX_NS: u64 = 5_000_000_000;
/// Maximum age of an answer that is still compared with those of a majority: a store that is down
/// leaves the decision to no single clock.
const COMPARED_AGE_MAX_NS: u64 = 3_600_000_000_000;
/// Maximum age of the last agreement of a majority that still holds.
const AGREEMENT_AGE_MAX_NS: u64 = 60_000_000_000;

/// Time on which clocks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgreedTime {
    /// Least Unix time, in nanoseconds, that the median of all voters' clocks can show: the clocks
    /// that did not answer show any.
    pub(crate) unix_ns: u64,
    /// The greatest one.
    pub(crate) latest_ns: u64,
    /// Whether clocks of a majority of the voters decide it, with more than one clock.
    pub(crate) is_confirmed: bool,
    /// Whether this clock is the only one of the cluster.
    pub(crate) is_only: bool,
}

/// Wall clocks of the other stores, as the leader reads them.
#[derive(Debug, Default)]
pub(crate) struct ClockAgreement {
    answers: BTreeMap<u64, WallReading>,
    /// Least and greatest time of the last agreement.
    last_confirmed: Option<[WallReading; 2]>,
}

impl ClockAgreement {
    /// Records the wall clock of a store: `unix_ns` is its answer, `boot_ns` the middle of the
    /// round trip by the clock of this process.
    pub(crate) fn record(&mut self, store: u64, answer: WallReading) {
        self.answers.insert(store, answer);
    }

    /// Returns the distance of each store's clock from this one's, in milliseconds, of answers that
    /// count.
    pub(crate) fn offsets_ms(&self, own: WallReading) -> BTreeMap<u64, i64> {
        let ms = |unix_ns: u64| (unix_ns / NS_PER_MS).cast_signed();
        let fresh = self.answers.iter().filter_map(|(store, answer)| {
            let there = continued(*answer, own, ANSWER_AGE_MAX_NS)?;
            Some((*store, ms(there) - ms(own.unix_ns)))
        });
        fresh.collect()
    }

    /// Returns the agreed time. `voters` are the ids of all voters, `own_id` is this store's.
    pub(crate) fn agree(&mut self, own: WallReading, own_id: u64, voters: &[u64]) -> AgreedTime {
        self.answers.retain(|store, _| voters.contains(store));
        let others = self.answers.iter().filter(|(store, _)| **store != own_id);
        let (mut clocks, mut answered) = (vec![own.unix_ns], 1);
        for (_, answer) in others {
            let Some(unix_ns) = continued(*answer, own, COMPARED_AGE_MAX_NS) else {
                continue;
            };
            clocks.push(unix_ns);
            answered += usize::from(continued(*answer, own, ANSWER_AGE_MAX_NS).is_some());
        }
        let is_only = voters.len() <= 1;
        let majority = voters.len() / 2 + 1;
        let is_confirmed = answered >= majority && !is_only;
        if is_confirmed {
            if seqsvr_core::planted!(TrustOwnClock) {
                clocks.fill(own.unix_ns);
            }
            clocks.sort_unstable();
            // The median of all voters, if those that are not compared are behind, and if they are
            // ahead. Schedule that breaks a single value: the leader dies, and of the two clocks
            // that are left one is an hour back. Their minimum would slow store time for hours.
            let ends = [clocks.len() - majority, majority - 1].map(|at| clocks[at]);
            self.last_confirmed = Some(ends.map(|unix_ns| WallReading { unix_ns, ..own }));
        }
        let [unix_ns, latest_ns] = self.last_confirmed.map_or([own.unix_ns; 2], |last| {
            last.map(|end| continued(end, own, AGREEMENT_AGE_MAX_NS).unwrap_or(own.unix_ns))
        });
        AgreedTime {
            unix_ns,
            latest_ns,
            is_confirmed,
            is_only,
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
    fn majority_answers_within_five_seconds_and_holds_for_a_minute() {
        let mut agreement = ClockAgreement::default();
        let voters = [1, 2, 3];
        let own = |passed: u64| reading(DAY + YEAR + passed, passed);
        let first = agreement.agree(own(0), 1, &voters);
        assert_eq!((first.unix_ns, first.is_confirmed), (DAY + YEAR, false));
        agreement.record(2, reading(DAY, 0));
        // That of a store that is no voter.
        agreement.record(9, reading(DAY + YEAR, 0));
        for (passed, is_confirmed) in [
            (5_000_000_000, true),
            (5_000_000_001, false),
            (65_000_000_000, false),
        ] {
            let agreed = agreement.agree(own(passed), 1, &voters);
            let expected = (DAY + passed, is_confirmed);
            assert_eq!((agreed.unix_ns, agreed.is_confirmed), expected);
        }
        let agreed = agreement.agree(own(65_000_000_001), 1, &voters);
        assert_eq!(agreed.unix_ns, DAY + YEAR + 65_000_000_001);
    }

    /// Schedule: one of three stores is down, and of the two others one is an hour behind. Or two
    /// of five are down, and of the three others two are an hour ahead.
    #[test]
    fn liars_need_a_majority_of_all_voters() {
        const HOUR: u64 = 3_600_000_000_000;
        let mut agreement = ClockAgreement::default();
        agreement.record(3, reading(DAY, 0));
        let later = |passed: u64| reading(DAY + passed, passed);
        agreement.record(2, reading(DAY + HOUR / 2 - HOUR, HOUR / 2));
        let agreed = agreement.agree(later(HOUR / 2), 1, &[1, 2, 3]);
        assert_eq!(
            (agreed.unix_ns, agreed.is_confirmed),
            (DAY + HOUR / 2, true)
        );

        let mut agreement = ClockAgreement::default();
        for liar in [2, 3] {
            agreement.record(liar, reading(DAY + HOUR, 0));
        }
        let agreed = agreement.agree(later(0), 1, &[1, 2, 3, 4, 5]);
        assert_eq!((agreed.unix_ns, agreed.is_confirmed), (DAY, true));
    }

    /// Schedule: the third store never answered this leader. The median of all three lies between
    /// the two clocks.
    #[test]
    fn clocks_that_do_not_answer_leave_a_range() {
        const HOUR: u64 = 3_600_000_000_000;
        for (other, range) in [
            (DAY - HOUR, [DAY - HOUR, DAY]),
            (DAY + HOUR, [DAY, DAY + HOUR]),
        ] {
            let mut agreement = ClockAgreement::default();
            agreement.record(2, reading(other, 0));
            let agreed = agreement.agree(reading(DAY, 0), 1, &[1, 2, 3]);
            assert_eq!([agreed.unix_ns, agreed.latest_ns], range);
            let later = agreement.agree(reading(DAY, 6_000_000_000), 1, &[1, 2, 3]);
            assert!(!later.is_confirmed);
            assert_eq!(later.latest_ns - later.unix_ns, HOUR);
        }
    }

    #[test]
    fn the_only_store_is_not_confirmed() {
        let mut agreement = ClockAgreement::default();
        let agreed = agreement.agree(reading(DAY, 0), 1, &[1]);
        assert!(agreed.is_only && !agreed.is_confirmed);
    }
}
