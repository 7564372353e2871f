//! Ids above 64 bits.

use seqsvr_core::layout::format_utc_ms;

use super::{IdCandidate, OLDEST_MS};
use crate::InputError;
use crate::presets::{IdReading, find_preset};

/// What the 65th bit adds to the milliseconds of npm `sonyflake`.
const TOP_TICK: u64 = 1 << 40;

/// Returns an id of 64 bits.
///
/// # Errors
/// The number is wider. The error says how wide, and what it can be.
pub fn narrow_id(number: u128) -> Result<u64, InputError> {
    u64::try_from(number).map_err(|_| {
        let wide = find_wide_candidate(number).map(|candidate| candidate.reason);
        let bits = u128::BITS - number.leading_zeros();
        InputError(wide.unwrap_or_else(|| {
            format!(
                "{number} has {bits} bits: an id has at most 64; write for example \
                 225912364091068416, or a UUID with its hyphens"
            )
        }))
    })
}

/// Returns how npm `sonyflake` with the Unix epoch can have made an id: 41 bits of milliseconds, 8
/// of sequence and 16 of worker. Returns None if it cannot.
pub fn find_wide_candidate(number: u128) -> Option<IdCandidate> {
    let preset = find_preset("npm:sonyflake").ok()?;
    let scheme = preset.scheme(Some(0)).ok()?;
    let mut parts = scheme.codec().decode(number as u64).ok()?;
    parts.tick |= TOP_TICK;
    let (time_ms, worker, seq) = (parts.tick, parts.worker, parts.seq);
    let time = format_utc_ms(time_ms);
    (number >> u64::BITS == 1 && time_ms >= OLDEST_MS).then(|| IdCandidate {
        presets: vec![preset],
        scheme,
        reading: IdReading { parts, time_ms },
        surprise_bits: 0,
        reason: format!(
            "{number} has 65 bits: an id has at most 64; npm sonyflake 1.1.2 makes such ids, with \
             41 bits of milliseconds since 1970, 8 of seq and 16 of worker: it would be of {time}, \
             worker {worker}, seq {seq}"
        ),
    })
}
