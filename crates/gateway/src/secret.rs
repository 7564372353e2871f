//! Passwords and tokens.

/// Compares in a time that does not depend on how much of it is right.
pub(crate) fn same(expected: &[u8], given: &[u8]) -> bool {
    let differ = expected.len() ^ given.len();
    let pairs = expected.iter().zip(given);
    pairs.fold(differ, |differ, (a, b)| differ | usize::from(a ^ b)) == 0
}
