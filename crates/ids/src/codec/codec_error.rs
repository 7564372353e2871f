//! Why parts are no id of a layout, and an id is none.

use super::IdPart;

/// A part has more bits than its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} {value} does not fit the layout: {}; use for example {} {max}, or a layout with more bits",
    part.name(),
    describe_bounds(*max),
    part.name()
)]
pub struct PartTooLarge {
    /// The part.
    pub part: IdPart,
    /// Its value.
    pub value: u64,
    /// The greatest value that fits.
    pub max: u64,
}

/// An id differs from all ids of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{id} is no id of the layout: bit {bit} of 0 to 63 is {}, and it is {} in all ids of the \
     layout; use for example another preset, such as twitter",
    id >> bit & 1,
    !id >> bit & 1
)]
pub struct NotOfLayout {
    /// The id.
    pub id: u64,
    /// The highest bit that differs; 63 is the sign.
    pub bit: u32,
}

fn describe_bounds(max: u64) -> String {
    match max {
        0 => String::from("the layout has no bits for it, so it is 0"),
        max => format!("it has {} bits, so it is 0 to {max}", max.count_ones()),
    }
}
