//! Why a workload gave no result.

use std::fmt::Display;

/// Reason why a workload gave no result.
#[derive(Debug)]
pub(crate) enum CompareError {
    /// A program that the workload needs is not available. The case is skipped.
    Unavailable(String),
    /// The workload failed. The command reports it and exits 1.
    Failed(String),
}

impl CompareError {
    /// Makes a failure of any error.
    pub(super) fn failed(error: impl Display) -> CompareError {
        CompareError::Failed(error.to_string())
    }

    /// Returns the text of the error.
    pub(crate) fn into_text(self) -> String {
        match self {
            CompareError::Unavailable(text) | CompareError::Failed(text) => text,
        }
    }
}
