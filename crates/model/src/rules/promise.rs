//! What the protocol promises to callers.

/// A promise of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// No caller of a cluster receives a number that a caller of this cluster received before.
    Unique,
    /// A call that begins after the answer to another receives a greater number.
    Monotonic,
    /// A planned move leaves max_seq no higher than the highest number that was used.
    Tight,
}

impl Promise {
    /// Name of the promise in tables and schedules.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Promise::Unique => "unique",
            Promise::Monotonic => "monotonic",
            Promise::Tight => "tight",
        }
    }

    /// Returns the promise with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let promises = [Promise::Unique, Promise::Monotonic, Promise::Tight];
        promises.into_iter().find(|promise| promise.name() == name)
    }
}
