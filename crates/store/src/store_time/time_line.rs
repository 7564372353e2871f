//! Store time in one term of a leader: from readings of clocks to a time that never falls.
//!
//! Invariant: within a term the time never falls, and it begins at the time of the state or above.
//! A step back of the clocks slows it to half their speed until they have caught up, so grants
//! continue. A step ahead, also that at the beginning of a term, is followed if a majority of the
//! clocks agrees; otherwise by 10 minutes in sum.
//!
//! Schedule that breaks it: the leader's clock is 30 s fast, and the next leader's is right. If the
//! next one used its own time, new ids would lie 30 s below those of before.

use super::clock_agreement::AgreedTime;
use super::{WallReading, ns_since};

const NS_PER_S: u64 = 1_000_000_000;
/// Step ahead of BOOTTIME that is followed without a majority: clocks are disciplined in steps.
pub(crate) const STEP_FOLLOWED_NS: u64 = 600 * NS_PER_S;
/// Most time for which a cluster may have been off, by its clocks, that needs no operator.
pub(crate) const OFF_TIME_MAX_NS: u64 = 30 * 86_400 * NS_PER_S;

/// Why the clocks are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuspectClocks {
    /// What they agree on, Unix time in nanoseconds.
    pub(crate) agreed_ns: u64,
    /// Whether there is no time at all until an operator accepts theirs.
    pub(crate) stops_grants: bool,
}

/// Store time as one leader advances it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLine {
    /// Time at the last reading; `unix_ns` is store time.
    last: WallReading,
    suspect: Option<SuspectClocks>,
    /// Whether a majority of the clocks, or the only one, was compared with the time of the state.
    is_compared: bool,
    /// Sum of the steps ahead that no majority has confirmed since it confirmed one.
    unconfirmed_ns: u64,
}

impl TimeLine {
    /// Begins a term. `state_ns` is the time in the state, if there was one before.
    ///
    /// A clock that no other confirms begins nothing: the term begins at the state's time, and
    /// [`advance`](TimeLine::advance) follows that clock as far as it follows any.
    pub(crate) fn begin(state_ns: Option<u64>, now: WallReading, agreed: AgreedTime) -> TimeLine {
        let unix_ns = state_ns.unwrap_or(agreed.unix_ns);
        let mut line = TimeLine {
            last: WallReading { unix_ns, ..now },
            suspect: None,
            is_compared: false,
            unconfirmed_ns: 0,
        };
        line.advance(now, agreed);
        line
    }

    /// Advances to now. Returns store time, in nanoseconds.
    pub(crate) fn advance(&mut self, now: WallReading, agreed: AgreedTime) -> u64 {
        let elapsed = ns_since(self.last, now);
        let continued = self.last.unix_ns.saturating_add(elapsed);
        let is_far = agreed.unix_ns > self.last.unix_ns.saturating_add(OFF_TIME_MAX_NS);
        // A term that began before a majority answered is compared with it once it does.
        let is_decided = agreed.is_confirmed || agreed.is_only;
        let is_first = is_decided && !self.is_compared;
        self.is_compared |= is_decided;
        let is_stopped = self.suspect.is_some_and(|suspect| suspect.stops_grants);
        let stops_grants = is_far && (is_first || is_stopped);
        let (unix_ns, is_suspect) = match agreed.unix_ns.checked_sub(continued) {
            _ if stops_grants => (self.last.unix_ns, true),
            // Between the clocks that the median may be: BOOTTIME decides.
            None if continued <= agreed.latest_ns => (continued, false),
            Some(_) if agreed.is_confirmed || is_first => (agreed.unix_ns, false),
            Some(step) if self.follows_alone(step, agreed) => (agreed.unix_ns, false),
            Some(_) => {
                seqsvr_core::reached!("store: clocks ahead were not followed");
                (continued, true)
            }
            None => {
                seqsvr_core::reached!("store: time was slowed");
                let slowed = self.last.unix_ns.saturating_add(elapsed / 2);
                (agreed.latest_ns.max(slowed), false)
            }
        };
        if agreed.is_confirmed {
            self.unconfirmed_ns = 0;
        }
        self.last = WallReading {
            unix_ns,
            boot_ns: now.boot_ns.max(self.last.boot_ns),
        };
        self.suspect = is_suspect.then_some(SuspectClocks {
            agreed_ns: agreed.unix_ns,
            stops_grants,
        });
        self.last.unix_ns
    }

    /// Returns whether a step ahead is followed that no majority confirms. A clock that goes ahead
    /// again and again counts once.
    fn follows_alone(&mut self, step_ns: u64, agreed: AgreedTime) -> bool {
        let before = self.unconfirmed_ns * u64::from(!agreed.is_only);
        let sum_ns = before.saturating_add(step_ns);
        let follows = sum_ns <= STEP_FOLLOWED_NS;
        if follows {
            self.unconfirmed_ns = sum_ns;
        }
        follows
    }

    /// Returns why the clocks are not followed, if they are not.
    pub(crate) fn suspect(&self) -> Option<SuspectClocks> {
        self.suspect
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Some day of 2026.
    const DAY: u64 = 1_795_000_000 * NS_PER_S;
    const HOUR: u64 = 3_600 * NS_PER_S;

    fn at(boot_ns: u64) -> WallReading {
        WallReading {
            unix_ns: 0,
            boot_ns,
        }
    }

    fn agreed(unix_ns: u64, is_confirmed: bool) -> AgreedTime {
        AgreedTime {
            unix_ns,
            latest_ns: unix_ns,
            is_confirmed,
            is_only: false,
        }
    }

    proptest! {
        /// Schedule: terms of leaders with any clocks, read at any times.
        #[test]
        fn store_time_never_falls(
            terms in prop::collection::vec(
                prop::collection::vec((0..2 * HOUR, 0..2 * DAY, any::<bool>()), 1..20),
                1..5,
            ),
        ) {
            let (mut state, mut boot) = (None, 0);
            for readings in terms {
                let (_, first, is_confirmed) = readings[0];
                let mut line = TimeLine::begin(state, at(boot), agreed(first, is_confirmed));
                for (passed, unix_ns, is_confirmed) in readings {
                    boot += passed;
                    let now = line.advance(at(boot), agreed(unix_ns, is_confirmed));
                    prop_assert!(now >= state.unwrap_or(0));
                    state = Some(now);
                }
            }
        }
    }

    #[test]
    fn step_back_is_absorbed_at_half_speed() {
        let mut line = TimeLine::begin(Some(DAY), at(0), agreed(DAY, true));
        for (passed, right) in [(0, DAY - HOUR), (HOUR, DAY), (2 * HOUR, DAY + HOUR)] {
            let now = line.advance(at(passed), agreed(right, true));
            assert_eq!(now, DAY + passed / 2);
        }
        let now = line.advance(at(3 * HOUR), agreed(DAY + 2 * HOUR, true));
        assert_eq!((now, line.suspect()), (DAY + 2 * HOUR, None));
    }

    /// Schedule: the leader dies, and of the two clocks that are left one is an hour off.
    #[test]
    fn time_continues_between_clocks_that_may_be_right() {
        let mut line = TimeLine::begin(Some(DAY), at(0), agreed(DAY - HOUR, true));
        for passed in [HOUR / 4, HOUR / 2] {
            let clocks = AgreedTime {
                latest_ns: DAY + passed + 5,
                ..agreed(DAY + passed - HOUR, true)
            };
            assert_eq!(line.advance(at(passed), clocks), DAY + passed);
        }
        let ahead = AgreedTime {
            latest_ns: DAY + 2 * HOUR,
            ..agreed(DAY + HOUR - 5, true)
        };
        assert_eq!(line.advance(at(HOUR), ahead), DAY + HOUR);
        assert_eq!(line.suspect(), None);
    }

    #[test]
    fn step_ahead_needs_a_majority_or_an_operator() {
        let small = STEP_FOLLOWED_NS;
        for (step, is_confirmed, follows) in [
            (small, false, true),
            (small + 1, false, false),
            (HOUR, true, true),
        ] {
            let mut line = TimeLine::begin(Some(DAY), at(0), agreed(DAY, true));
            let clocks = agreed(DAY + HOUR + step, is_confirmed);
            let now = line.advance(at(HOUR), clocks);
            let expected = if follows { step } else { 0 };
            assert_eq!(now, DAY + HOUR + expected, "{step} {is_confirmed}");
            let suspect = line.suspect();
            assert_eq!(suspect.is_none(), follows);
            assert!(suspect.is_none_or(|suspect| !suspect.stops_grants));
            // An operator sets store time to that of the clocks.
            let mut line = TimeLine::begin(Some(clocks.unix_ns), at(HOUR), clocks);
            assert_eq!(line.advance(at(HOUR), clocks), DAY + HOUR + step);
            assert_eq!(line.suspect(), None);
        }
    }

    /// Schedule: a store whose clock is a day ahead is elected, and no other answers in time.
    #[test]
    fn unconfirmed_clock_begins_at_the_time_of_the_state() {
        let mut line = TimeLine::begin(Some(DAY), at(0), agreed(DAY + 24 * HOUR, false));
        assert_eq!(
            line.advance(at(HOUR), agreed(DAY + 25 * HOUR, false)),
            DAY + HOUR
        );
        assert!(line.suspect().is_some());
        assert_eq!(
            line.advance(at(HOUR), agreed(DAY + 2 * HOUR, true)),
            DAY + 2 * HOUR
        );
        assert_eq!(line.suspect(), None);
    }

    /// The only clock of a cluster decides where a term begins.
    #[test]
    fn only_clock_begins_a_term() {
        let only = AgreedTime {
            is_only: true,
            ..agreed(DAY + 24 * HOUR, false)
        };
        let mut line = TimeLine::begin(Some(DAY), at(0), only);
        assert_eq!(line.advance(at(0), only), DAY + 24 * HOUR);
    }

    #[test]
    fn unconfirmed_steps_count_in_sum() {
        let mut line = TimeLine::begin(Some(DAY), at(0), agreed(DAY, true));
        let half = STEP_FOLLOWED_NS / 2;
        for (step, follows) in [(half, true), (2 * half, true), (2 * half + 1, false)] {
            line.advance(at(0), agreed(DAY + step, false));
            assert_eq!(line.suspect().is_none(), follows);
        }
    }

    #[test]
    fn cluster_that_was_off_for_long_waits_for_an_operator() {
        let far = agreed(DAY + OFF_TIME_MAX_NS + 1, true);
        let mut line = TimeLine::begin(Some(DAY), at(0), far);
        assert_eq!(line.advance(at(HOUR), far), DAY);
        assert!(line.suspect().is_some_and(|suspect| suspect.stops_grants));
        // An operator sets store time to that of the clocks.
        let mut line = TimeLine::begin(Some(far.unix_ns), at(HOUR), far);
        assert_eq!(line.advance(at(HOUR), far), far.unix_ns);
        let near = agreed(DAY + OFF_TIME_MAX_NS, true);
        assert_eq!(TimeLine::begin(Some(DAY), at(0), near).suspect(), None);
        assert_eq!(TimeLine::begin(None, at(0), far).suspect(), None);

        // No majority had answered when the term began.
        let mut line = TimeLine::begin(Some(DAY), at(0), agreed(DAY, false));
        assert_eq!(line.advance(at(5), far), DAY);
        assert!(line.suspect().is_some_and(|suspect| suspect.stops_grants));

        // The stop ends once the clocks are put right.
        let mut line = TimeLine::begin(Some(DAY), at(0), far);
        assert_eq!(line.advance(at(HOUR), agreed(DAY + HOUR, true)), DAY + HOUR);
        assert_eq!(line.suspect(), None);
    }
}
