//! What a generator without a store must keep across a restart.

/// The first tick of each lane of which no id was handed out, and the lane in use.
///
/// A process keeps it in a file and passes it to [`Clocked::resume`](super::Clocked::resume).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    lane: u8,
    next_ticks: [u64; Self::LANES_MAX],
}

impl Progress {
    /// Most lanes of a layout.
    pub const LANES_MAX: usize = 8;

    /// Makes the progress of a generator in `lane`; lane `l` continues at `next_ticks[l]`.
    pub fn new(lane: u8, next_ticks: [u64; Self::LANES_MAX]) -> Self {
        Self { lane, next_ticks }
    }

    /// Makes the progress of a generator that handed out ids of no lane after `last_tick`.
    pub fn after(last_tick: u64) -> Self {
        Self::new(0, [last_tick.saturating_add(1); Self::LANES_MAX])
    }

    /// Makes the progress of a generator that gave no id.
    pub(super) fn none(lane: u8) -> Self {
        Self::new(lane, [0; Self::LANES_MAX])
    }

    /// Returns the lane in use.
    pub fn lane(&self) -> u8 {
        self.lane
    }

    /// Returns the first unused tick of each lane.
    pub fn next_ticks(&self) -> [u64; Self::LANES_MAX] {
        self.next_ticks
    }

    /// Returns the progress that also covers ids taken later, up to the tick `until`, not included.
    ///
    /// A process that keeps this before it stamps `until` loses nothing if it is killed. All lanes
    /// continue at `until` then, so no lane is in front of another.
    #[must_use]
    pub fn reserve(&self, until: u64) -> Self {
        Self::new(self.lane, self.next_ticks.map(|tick| tick.max(until)))
    }
}
