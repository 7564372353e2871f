//! Why a text, a name or a number is rejected.

use seqsvr_core::layout::LayoutError;

/// A text that is no id or no epoch, an id that is too wide, or a preset that does not exist or
/// that needs another epoch: what is wrong, the bounds, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub(crate) String);

impl From<LayoutError> for InputError {
    fn from(error: LayoutError) -> InputError {
        InputError(error.to_string())
    }
}
