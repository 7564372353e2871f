//! The presets by which the time of an id is plausible.

use std::cmp::Reverse;

use seqsvr_core::layout::format_utc_ms;

use crate::presets::{IdPreset, IdReading, IdScheme, PRESETS};

/// Start of 2006: no id of these kinds is older.
pub const OLDEST_MS: u64 = 1_136_073_600_000;
/// Milliseconds of a day: clocks of makers may be ahead by that much.
const DAY_MS: u64 = 86_400_000;
/// Bits of a maker that is the low half of an address: large numbers are as frequent as small ones.
const ADDRESS_BITS: u32 = 16;
/// What it costs a candidate to use a number that its makers keep for clocks set back, in bits.
const RESERVED_BITS: u32 = 16;

/// A way to read an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdCandidate {
    /// Presets that read it so, as the table lists them.
    pub presets: Vec<&'static IdPreset>,
    /// How they read it.
    pub scheme: IdScheme,
    /// The parts and the time.
    pub reading: IdReading,
    /// Bits of chance that this reading takes: the fewer, the more plausible.
    pub surprise_bits: u32,
    /// Why it is plausible, in words.
    pub reason: String,
}

/// Returns whether an id may be of this time: between 2006 and a day after `now_ms`.
pub fn is_plausible_time(time_ms: u64, now_ms: u64) -> bool {
    (OLDEST_MS..=now_ms.saturating_add(DAY_MS)).contains(&time_ms)
}

/// Returns the readings whose time lies between 2006 and a day after `now_ms`, the most plausible
/// first. Presets without an epoch of their own are left out. A signed id is given by its bits.
///
/// A reading is plausible if its time is near, and its maker and number are small: most makers have
/// small numbers, and most ids are among the first of their tick.
pub fn find_candidates(id: u64, now_ms: u64) -> Vec<IdCandidate> {
    let mut candidates: Vec<IdCandidate> = Vec::new();
    for preset in PRESETS.iter() {
        let Some(candidate) = read_by(preset, id, now_ms) else {
            continue;
        };
        let is_equal = |other: &&mut IdCandidate| other.reading == candidate.reading;
        match candidates.iter_mut().find(is_equal) {
            Some(equal) => {
                equal.presets.push(preset);
                equal.surprise_bits = equal.surprise_bits.min(candidate.surprise_bits);
            }
            None => candidates.push(candidate),
        }
    }
    // Of equal ones that which more packages make.
    candidates.sort_by_key(|c| {
        let packages: usize = c.presets.iter().map(|p| p.packages.len().max(1)).sum();
        (c.surprise_bits, Reverse(packages))
    });
    candidates
}

fn read_by(preset: &'static IdPreset, id: u64, now_ms: u64) -> Option<IdCandidate> {
    let scheme = preset.scheme(None).ok()?;
    let reading = scheme.read(id).ok()?;
    is_plausible_time(reading.time_ms, now_ms).then(|| IdCandidate {
        presets: vec![preset],
        surprise_bits: count_surprise(preset, &scheme, &reading, now_ms),
        reason: describe(&scheme, &reading, now_ms),
        scheme,
        reading,
    })
}

fn count_surprise(preset: &IdPreset, scheme: &IdScheme, reading: &IdReading, now_ms: u64) -> u32 {
    // About the length of Elias's gamma code, in which small numbers are short.
    let bits_of = |number: u64| 2 * (u64::BITS - number.leading_zeros());
    let parts = &reading.parts;
    // As one number: a split into two levels does not make it smaller.
    let worker_bits = scheme.layout().bits_of("worker");
    let maker = u64::from(parts.dc) << worker_bits | u64::from(parts.worker);
    let maker_bits = match worker_bits {
        ADDRESS_BITS => ADDRESS_BITS,
        _ => bits_of(maker),
    };
    let seq = match parts.seq.checked_sub(preset.seq_min) {
        Some(seq) => bits_of(seq.into()),
        None => RESERVED_BITS,
    };
    let days = reading.time_ms.abs_diff(now_ms) / DAY_MS;
    bits_of(days) + maker_bits + bits_of(parts.lane.into()) + seq
}

fn describe(scheme: &IdScheme, reading: &IdReading, now_ms: u64) -> String {
    let days = reading.time_ms.abs_diff(now_ms) / DAY_MS;
    let time = format_utc_ms(reading.time_ms);
    let mut text = match (days, reading.time_ms <= now_ms) {
        (0, true) => format!("{time} is less than a day ago"),
        (0, false) => format!("{time} is less than a day ahead"),
        (days, true) => format!("{time} is {days} days ago"),
        (days, false) => format!("{time} is {days} days ahead"),
    };
    let [_tick, shown @ .., _rand] = scheme.codec().named_parts(&reading.parts);
    for (name, value, max) in shown.into_iter().filter(|(.., max)| *max > 0) {
        text += &format!(", {name} {value} of 0 to {max}");
    }
    text
}
