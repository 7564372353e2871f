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
        self.rule().0
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

    /// Returns the name of the field, its fewest and its most bits, and an example.
    pub(super) fn rule(self) -> (&'static str, u32, u32, &'static str) {
        match self {
            FieldKind::Zero => ("0", 1, 44, "0:1"),
            FieldKind::Time { .. } => ("time", 20, 63, "time:41"),
            FieldKind::DataCenter => ("dc", 0, 22, "dc:5"),
            FieldKind::Worker => ("worker", 0, 22, "worker:10"),
            FieldKind::Lane => ("lane", 1, 3, "lane:2"),
            FieldKind::Sequence { .. } => ("seq", 0, 30, "seq:12"),
            FieldKind::Constant(_) => ("const", 1, 44, "const:4=9"),
            FieldKind::Random => ("rand", 1, 44, "rand:8"),
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
