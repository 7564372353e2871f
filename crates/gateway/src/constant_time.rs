//! Comparison of passwords and tokens.

/// Compares two texts in a time that does not depend on their common part.
pub(crate) fn constant_time_eq(expected: &[u8], received: &[u8]) -> bool {
    let difference = expected.len() ^ received.len();
    let pairs = expected.iter().zip(received);
    pairs.fold(difference, |difference, (a, b)| {
        difference | usize::from(a ^ b)
    }) == 0
}
