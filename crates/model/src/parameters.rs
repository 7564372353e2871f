//! Durations of the model in ticks, and how its clocks behave.

/// The lease D, as the slowest owner clock within the drift bound measures it.
pub(crate) const LEASE_TICKS: u8 = 2;
/// The takeover wait W, as the fastest arbiter clock measures it: 1.25 D / 1.1 > D / 0.9.
pub(crate) const TAKEOVER_WAIT_TICKS: u8 = 2;

/// Behavior of the clocks in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockBehavior {
    /// Clocks are stopped: a lease that holds at the start holds permanently, and no session
    /// expires.
    Stopped,
    /// Clocks drift within the bound.
    Bounded,
    /// Clocks mean nothing: at any moment every lease may seem valid and W may seem to have passed.
    Unbounded,
}
