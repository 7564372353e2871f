//! Why an input is rejected.

/// A text, a name or a number that is rejected, such as a list of fields that is no layout: what is
/// wrong, the bounds, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InputError(pub String);
