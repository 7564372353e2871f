//! Why a layout is rejected.

/// A list of fields that is no layout, a layout that does not serve its purpose, or a unit or an
/// epoch that is out of bounds: what is wrong, the bounds, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LayoutError(pub(super) String);
