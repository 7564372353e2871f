//! Guards of actions, for the operator `?`: an action that may not happen gives no next state.

/// Returns `None` unless the condition holds.
pub(crate) fn require(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// Counts one more action. Returns `None` if `limit` of them have happened.
pub(crate) fn count_action(count: &mut u8, limit: u8) -> Option<()> {
    require(*count < limit)?;
    *count += 1;
    Some(())
}
