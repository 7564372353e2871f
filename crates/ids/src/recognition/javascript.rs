//! Ids that went through a number of JavaScript.

/// Greatest integer up to which a double holds all.
const EXACT_MAX: u128 = 1 << 53;

/// Returns whether an id looks as if JavaScript had rounded it: above 2^53, and either a multiple
/// of the distance of doubles there, or the digits that JavaScript prints for the nearest one.
///
/// An id with the sequence 0 may be such a multiple without having been rounded.
pub fn is_maybe_rounded(id: u128) -> bool {
    if id <= EXACT_MAX {
        return false;
    }
    // Every doubling above doubles the distance.
    let lost_bits = EXACT_MAX.leading_zeros() + 1 - id.leading_zeros();
    // Like JavaScript this prints the fewest digits that lead to the same double, then zeros.
    let as_printed = || (id as f64).to_string() == id.to_string();
    id.trailing_zeros() >= lost_bits || as_printed()
}
