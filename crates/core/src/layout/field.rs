//! One field of a layout.

use std::fmt;

/// What the bits of a field mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldKind {
    /// Zeros.
    Zero,
    /// Ticks since the epoch.
    Time {
        /// All bits are inverted, so that later ids are smaller.
        inverted: bool,
    },
    /// The data center, or the upper of two levels of a worker.
    DataCenter,
    /// The number of the maker.
    Worker,
    /// Which of several timelines of a worker.
    Lane,
    /// The number within a tick.
    Sequence {
        /// All bits are inverted.
        inverted: bool,
    },
    /// A constant.
    Constant(u64),
    /// Random bits.
    Random,
}

impl FieldKind {
    /// Returns the name of the field in the grammar, without the mark of inversion.
    pub fn name(self) -> &'static str {
        match self {
            FieldKind::Zero => "0",
            FieldKind::Time { .. } => "time",
            FieldKind::DataCenter => "dc",
            FieldKind::Worker => "worker",
            FieldKind::Lane => "lane",
            FieldKind::Sequence { .. } => "seq",
            FieldKind::Constant(_) => "const",
            FieldKind::Random => "rand",
        }
    }

    /// Returns whether all ids have the same bits here.
    pub fn is_fixed(self) -> bool {
        matches!(self, FieldKind::Zero | FieldKind::Constant(_))
    }

    /// Returns whether all bits are inverted.
    pub fn is_inverted(self) -> bool {
        matches!(
            self,
            FieldKind::Time { inverted: true } | FieldKind::Sequence { inverted: true }
        )
    }

    /// Returns whether a layout may have several of these.
    pub(super) fn may_repeat(self) -> bool {
        self.is_fixed() || self == FieldKind::Random
    }

    /// Returns the fewest and the most bits of the field, and an example.
    pub(super) fn bounds(self) -> (u32, u32, &'static str) {
        match self {
            FieldKind::Zero => (1, 44, "0:1"),
            FieldKind::Time { .. } => (20, 63, "time:41"),
            FieldKind::DataCenter => (0, 22, "dc:5"),
            FieldKind::Worker => (0, 22, "worker:10"),
            FieldKind::Lane => (1, 3, "lane:2"),
            FieldKind::Sequence { .. } => (0, 30, "seq:12"),
            FieldKind::Constant(_) => (1, 44, "const:4=9"),
            FieldKind::Random => (1, 44, "rand:8"),
        }
    }
}

/// A field and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutField {
    /// What the bits mean.
    pub kind: FieldKind,
    /// How many there are.
    pub bits: u32,
}

impl fmt::Display for LayoutField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.kind.is_inverted() { "~" } else { "" };
        write!(f, "{}{mark}:{}", self.kind.name(), self.bits)?;
        match self.kind {
            FieldKind::Constant(value) => write!(f, "={value}"),
            _ => Ok(()),
        }
    }
}
