//! What the protocols promise to callers.

/// A promise of a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Promise {
    /// No caller of a cluster receives a number that a caller of this cluster received before. No
    /// tick of a lane of a worker is used twice.
    Unique,
    /// A call that begins after the answer to another receives a greater number. In one lane of a
    /// worker, the ids of one holder rise, and those of a later epoch lie above.
    Monotonic,
    /// A planned move leaves max_seq no higher than the highest number that was used.
    Tight,
    /// Grants: no tick is granted more than `ahead` + `window` in front of the time that leaders
    /// read since the last SetTime.
    Near,
    /// Grants: the store time goes back only by SetTime.
    Forward,
    /// Grants: no tick below the floor is granted after the floor was raised.
    Floor,
    /// Grants: no tick after the last one of the layout is granted.
    End,
    /// Grants: a lane of a worker that was left is never granted again, where lanes are used once.
    Once,
    /// Grants: an acquisition holds one worker at most, however often its request arrives.
    Single,
}

/// All promises, with their names in tables and schedules.
const NAMES: &[(Promise, &str)] = &[
    (Promise::Unique, "unique"),
    (Promise::Monotonic, "monotonic"),
    (Promise::Tight, "tight"),
    (Promise::Near, "near"),
    (Promise::Forward, "forward"),
    (Promise::Floor, "floor"),
    (Promise::End, "end"),
    (Promise::Once, "once"),
    (Promise::Single, "single"),
];

impl Promise {
    /// Name of the promise in tables and schedules.
    pub(crate) fn name(self) -> &'static str {
        NAMES
            .iter()
            .find(|(promise, _)| *promise == self)
            .map_or("", |(_, name)| name)
    }

    /// Returns the promise with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let named = NAMES.iter().find(|(_, other)| *other == name);
        named.map(|(promise, _)| *promise)
    }
}
