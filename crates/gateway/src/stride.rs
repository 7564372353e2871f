//! The distance between the numbers of an answer.

/// Returns how far apart `count` numbers from `first` to `last` are; 0 for one.
pub(crate) fn stride(first: u64, last: u64, count: u32) -> u64 {
    match count {
        0 | 1 => 0,
        more => (last - first) / u64::from(more - 1),
    }
}
