//! The distance between the numbers of an answer.

/// Returns the distance between `count` equidistant numbers from `first` to `last`; 0 for one
/// number.
pub(crate) fn stride_of(first: u64, last: u64, count: u32) -> u64 {
    match count {
        0 | 1 => 0,
        more => (last - first) / u64::from(more - 1),
    }
}
