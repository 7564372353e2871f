//! What a generator without a store does when its clock is behind.

/// What a policy decides about a reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockVerdict {
    /// Stamp ticks up to and including this one.
    UpTo(u64),
    /// Wait this many ticks, then read the clock again.
    Wait(u64),
    /// Continue in a lane whose ticks at the reading are not used.
    ChangeLane(LaneChoice),
    /// Reject the call.
    Reject,
}

/// Which lane a generator continues in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneChoice {
    /// The next one above; a lane is used once.
    NextAbove,
    /// Of all others the one that is the least far.
    LeastFar,
}

/// Decides what a reading of the clock allows.
pub trait ClockPolicy {
    /// Whether the verdict depends on the last tick. If not, the generator may skip positions,
    /// which makes it faster; then `last_tick` may be any tick.
    const USES_LAST_TICK: bool = true;

    /// Judges a reading. `last_tick` returns the last tick that may have been stamped in the
    /// present lane; `has_waited` is true if the call has already waited for the clock.
    fn judge(&self, now: u64, last_tick: impl FnOnce() -> u64, has_waited: bool) -> ClockVerdict;
}

/// Rejects calls while the clock is behind, and waits for the next tick when one is used up
/// (Twitter, UidGenerator).
#[derive(Clone, Copy, Debug, Default)]
pub struct Refuse;

/// Waits once for a clock that is a little behind, and rejects the call if it is more or still
/// behind (Leaf: 5 ms).
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Greatest distance that it waits for; more is rejected.
    pub max_ticks: u64,
    /// Ticks waited for each tick that the clock is behind: 2 in Leaf.
    pub factor: u64,
}

/// Continues in the last tick while the clock is behind, until that tick is used up (sonyflake).
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold;

/// Continues in the last tick and the following ones, at most `max_ticks` in front of the reading
/// (UidGenerator's cached generator, Hazelcast).
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    /// Most ticks in front of the reading.
    pub max_ticks: u64,
}

/// Continues at the reading in the next lane above, each lane once; rejects calls after the last
/// lane until the clock has caught up.
#[derive(Clone, Copy, Debug)]
pub struct RollbackBits {
    /// Greatest distance that it waits for once, without a change of the lane.
    pub wait_ticks: u64,
}

/// Continues at the reading in the lane that is the least far, if that is not beyond the reading;
/// otherwise it rejects the call.
#[derive(Clone, Copy, Debug)]
pub struct Timelines {
    /// Greatest distance that it waits for once, without a change of the lane.
    pub wait_ticks: u64,
}

impl ClockPolicy for Refuse {
    #[inline]
    fn judge(&self, now: u64, last_tick: impl FnOnce() -> u64, _: bool) -> ClockVerdict {
        judge_distance(now, last_tick(), (0, 1), ClockVerdict::Reject)
    }
}

impl ClockPolicy for Wait {
    #[inline]
    fn judge(&self, now: u64, last_tick: impl FnOnce() -> u64, has_waited: bool) -> ClockVerdict {
        let max = if has_waited { 0 } else { self.max_ticks };
        let wait = (max, self.factor.max(1));
        judge_distance(now, last_tick(), wait, ClockVerdict::Reject)
    }
}

impl ClockPolicy for Hold {
    #[inline]
    fn judge(&self, now: u64, last_tick: impl FnOnce() -> u64, _: bool) -> ClockVerdict {
        ClockVerdict::UpTo(now.max(last_tick()))
    }
}

impl ClockPolicy for Ahead {
    const USES_LAST_TICK: bool = false;

    #[inline]
    fn judge(&self, now: u64, _: impl FnOnce() -> u64, _: bool) -> ClockVerdict {
        ClockVerdict::UpTo(now.saturating_add(self.max_ticks))
    }
}

impl ClockPolicy for RollbackBits {
    #[inline]
    fn judge(&self, now: u64, last_tick: impl FnOnce() -> u64, has_waited: bool) -> ClockVerdict {
        let max = if has_waited { 0 } else { self.wait_ticks };
        let otherwise = ClockVerdict::ChangeLane(LaneChoice::NextAbove);
        judge_distance(now, last_tick(), (max, 1), otherwise)
    }
}

impl ClockPolicy for Timelines {
    #[inline]
    fn judge(&self, now: u64, last_tick: impl FnOnce() -> u64, has_waited: bool) -> ClockVerdict {
        let max = if has_waited { 0 } else { self.wait_ticks };
        let otherwise = ClockVerdict::ChangeLane(LaneChoice::LeastFar);
        judge_distance(now, last_tick(), (max, 1), otherwise)
    }
}

/// Stamps a reading that is not behind. Waits for one that is at most `max` behind, `factor` times
/// as long.
#[inline]
fn judge_distance(
    now: u64,
    last_tick: u64,
    (max, factor): (u64, u64),
    otherwise: ClockVerdict,
) -> ClockVerdict {
    match last_tick.saturating_sub(now) {
        0 => ClockVerdict::UpTo(now),
        behind if behind <= max => ClockVerdict::Wait(behind.saturating_mul(factor)),
        _ => otherwise,
    }
}
