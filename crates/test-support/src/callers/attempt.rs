//! One attempt of a call at the endpoint of one node.

use super::test_call::ItemOutcome;
use crate::test_keys::TestKey;

/// Result of one attempt for one item.
pub(super) enum AttemptResult {
    Done(ItemOutcome),
    /// A retry may succeed, perhaps elsewhere.
    Retry(String),
}

/// Returns the same retryable error for every item.
pub(super) fn retry_all(items: &[&TestKey], text: &str) -> Vec<AttemptResult> {
    items
        .iter()
        .map(|_| AttemptResult::Retry(text.to_owned()))
        .collect()
}
