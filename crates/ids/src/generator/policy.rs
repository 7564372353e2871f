//! What a generator without a store does when its clock is behind.

use super::NoId;

/// Why a policy stamps no tick at a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// What the caller receives if no other lane continues.
    pub error: NoId,
    /// The lanes of which one may continue, if its ticks at the reading are not used.
    pub lanes: Option<LaneChoice>,
}

/// The caller receives the error.
impl From<NoId> for Rejection {
    fn from(error: NoId) -> Self {
        let lanes = None;
        Self { error, lanes }
    }
}

/// Which lanes a generator may continue in; it takes the one that is the least far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneChoice {
    /// Those above the present one: a lane is used once.
    Above,
    /// All others.
    Other,
}

/// Decides what a reading of the clock allows.
pub trait ClockPolicy {
    /// Whether the verdict depends on the last tick. If not, the generator may skip positions,
    /// which makes it faster; then `last_tick` may be any tick.
    const USES_LAST_TICK: bool = true;

    /// Returns the last tick that may be stamped at a reading. `last_tick` is the last one that may
    /// have been stamped in the present lane; `has_waited` is true if the call has already waited
    /// for the clock.
    ///
    /// # Errors
    /// The policy stamps none.
    fn reach(&self, now: u64, last_tick: u64, has_waited: bool) -> Result<u64, Rejection>;
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
    fn reach(&self, now: u64, last_tick: u64, _: bool) -> Result<u64, Rejection> {
        reach_or_wait(now, last_tick, (0, 1), None)
    }
}

impl ClockPolicy for Wait {
    fn reach(&self, now: u64, last_tick: u64, has_waited: bool) -> Result<u64, Rejection> {
        let wait_max = if has_waited { 0 } else { self.max_ticks };
        reach_or_wait(now, last_tick, (wait_max, self.factor.max(1)), None)
    }
}

impl ClockPolicy for Hold {
    fn reach(&self, now: u64, last_tick: u64, _: bool) -> Result<u64, Rejection> {
        Ok(now.max(last_tick))
    }
}

impl ClockPolicy for Ahead {
    const USES_LAST_TICK: bool = false;

    #[inline]
    fn reach(&self, now: u64, _: u64, _: bool) -> Result<u64, Rejection> {
        Ok(now.saturating_add(self.max_ticks))
    }
}

impl ClockPolicy for RollbackBits {
    fn reach(&self, now: u64, last_tick: u64, has_waited: bool) -> Result<u64, Rejection> {
        let wait_max = if has_waited { 0 } else { self.wait_ticks };
        reach_or_wait(now, last_tick, (wait_max, 1), Some(LaneChoice::Above))
    }
}

impl ClockPolicy for Timelines {
    fn reach(&self, now: u64, last_tick: u64, has_waited: bool) -> Result<u64, Rejection> {
        let wait_max = if has_waited { 0 } else { self.wait_ticks };
        reach_or_wait(now, last_tick, (wait_max, 1), Some(LaneChoice::Other))
    }
}

/// Stamps a reading that is not behind. Waits for one that is at most `wait_max` behind, `factor`
/// times as long; further behind another lane may continue.
fn reach_or_wait(
    now: u64,
    last_tick: u64,
    (wait_max, factor): (u64, u64),
    lanes: Option<LaneChoice>,
) -> Result<u64, Rejection> {
    let behind_ticks = last_tick.saturating_sub(now);
    let (wait_ticks, lanes) = match behind_ticks {
        0 => return Ok(now),
        _ if behind_ticks <= wait_max => (behind_ticks.saturating_mul(factor), None),
        _ => (0, lanes),
    };
    let error = NoId::MovedBack {
        behind_ticks,
        wait_ticks,
    };
    Err(Rejection { error, lanes })
}
