//! An id and its parts in one line.

use seqsvr_core::layout::format_utc_ms;

use crate::presets::{IdReading, IdScheme};

/// Returns the line of an id: time, number within the tick, maker, and the id as decimal, hex and
/// bits, with a mark between the fields.
pub fn format_long(scheme: &IdScheme, id: u64, reading: &IdReading) -> String {
    let parts = &reading.parts;
    let maker = match scheme.layout().bits_of("dc") {
        0 => format!("@({})", parts.worker),
        _ => format!("@({},{})", parts.dc, parts.worker),
    };
    let time = format_utc_ms(reading.time_ms);
    let bits = format_bits(scheme, id);
    let seq = parts.seq;
    format!("{time}, #{seq}, {maker} => id: {id}, hex: {id:016X}, bin: {bits}")
}

/// Returns the 64 bits of an id with a mark between the fields.
fn format_bits(scheme: &IdScheme, id: u64) -> String {
    let mut bits = format!("{id:064b}");
    let fields = scheme.layout().fields_with_shifts();
    // From the top down, so each mark moves the ones below it.
    let tops = fields.filter(|(field, _)| field.bits > 0);
    let tops = tops.map(|(field, shift)| (shift + field.bits) as usize);
    for (marks, top) in tops.filter(|top| *top < 64).enumerate() {
        bits.insert(64 - top + marks, '|');
    }
    bits
}
