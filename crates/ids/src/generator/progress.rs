//! What a generator without a store must keep across a restart.

/// Most lanes of a layout.
pub(super) const LANES_MAX: usize = 8;

/// The first tick of each lane of which no id was handed out, and the lane in use.
///
/// A process keeps it in a file and passes it to [`Clocked::resume`](super::Clocked::resume).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The lane in use.
    pub lane: u8,
    /// The first unused tick of each lane.
    pub next_ticks: [u64; LANES_MAX],
}

impl Progress {
    /// Returns the progress that also covers ids taken later, up to the tick `until`, not included.
    ///
    /// A process that keeps this before it stamps `until` loses nothing if it is killed. All lanes
    /// continue at `until` then, so no lane is in front of another.
    #[must_use]
    pub fn reserve(self, until: u64) -> Self {
        let next_ticks = self.next_ticks.map(|tick| tick.max(until));
        Self { next_ticks, ..self }
    }
}
