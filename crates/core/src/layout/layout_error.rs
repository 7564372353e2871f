//! Why a layout is rejected.

use super::utc_text::format_utc_ms;

/// A list of fields that is no layout, or a layout that does not serve its purpose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A part of the text is no field.
    #[error(
        "{0:?} is no field of a layout: a field is name:bits, and the names are 0, time, time~, \
         dc, worker, lane, seq, seq~, const and rand; write for example time:41 or const:4=9"
    )]
    BadField(String),
    /// A field has too few or too many bits.
    #[error(
        "{field} has {bits} bits: it may have {min} to {max}; write for example {example}",
        bits = if *.bits == u32::MAX { String::from("too many") } else { bits.to_string() }
    )]
    Bits {
        /// Name of the field.
        field: &'static str,
        /// Its bits.
        bits: u32,
        /// The fewest.
        min: u32,
        /// The most.
        max: u32,
        /// A field of this name that is accepted.
        example: &'static str,
    },
    /// A constant has more bits than its field.
    #[error(
        "const is {value}: in {bits} bits it may be 0 to {max}; write for example \
         const:{bits}={max}"
    )]
    Constant {
        /// The constant.
        value: u64,
        /// Bits of the field.
        bits: u32,
        /// The greatest that fits.
        max: u64,
    },
    /// A field that a layout has once is missing or occurs several times.
    #[error(
        "the layout has {count} fields {field}: it must have {allowed}; write for example \
         0:1,time:41,worker:10,seq:12"
    )]
    Count {
        /// Name of the field.
        field: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        allowed: &'static str,
    },
    /// The fields have more than 64 bits.
    #[error(
        "{sum} are {bits} bits: an id has 1 to 64; take {} away, as in \
         0:1,time:41,worker:10,seq:12",
        bits - 64
    )]
    TooWide {
        /// The fields and their widths.
        sum: String,
        /// Their sum.
        bits: u32,
    },
    /// 64 bits, and the top bit is used without the word `unsigned`.
    #[error(
        "the layout has 64 bits and uses the sign: a signed id has 63; begin with 0:1, as in \
         0:1,time:41,worker:10,seq:12, or with the word unsigned, as in \
         unsigned,time:42,worker:10,seq:12"
    )]
    Sign,
    /// Only one of `time` and `seq` is inverted.
    #[error(
        "only one of time and seq is inverted: both are, or none; write for example \
         0:1,time~:41,worker:10,seq~:12"
    )]
    Inversion,
    /// A generator cannot count the positions.
    #[error(
        "time {time} + lane {lane} + seq {seq} are {} bits: a generator counts in at most 63; \
         take {} away, as in time:41,seq:12",
        time + lane + seq,
        time + lane + seq - 63
    )]
    Positions {
        /// Bits of `time`.
        time: u32,
        /// Bits of `lane`.
        lane: u32,
        /// Bits of `seq`.
        seq: u32,
    },
    /// JavaScript does not read the ids exactly.
    #[error(
        "the layout has {bits} bits: JavaScript reads at most 53 exactly; write for example \
         time:41,worker:3,seq:9"
    )]
    JavaScript {
        /// Bits of the layout.
        bits: u32,
    },
    /// The ticks of the layout are used up, or soon.
    #[error(
        "time:{bits} in units of {unit_ms} ms since {} {} {}: ids are needed until {}; give a \
         later epoch, or time more bits",
        format_utc_ms(*.epoch_ms),
        if end_ms <= now_ms { "ended on" } else { "ends on" },
        format_utc_ms(*.end_ms),
        format_utc_ms(*.needed_ms)
    )]
    Ended {
        /// Bits of `time`.
        bits: u32,
        /// Length of a tick.
        unit_ms: u64,
        /// Unix time of tick 0.
        epoch_ms: u64,
        /// Unix time at which the ticks are used up.
        end_ms: u64,
        /// Unix time of the check.
        now_ms: u64,
        /// Until when ids are needed.
        needed_ms: u64,
    },
    /// The unit of time is out of bounds or unreadable.
    #[error(
        "the unit {0:?} is no unit of time: it is 1ms to 3600000ms; write for example 10ms or 1s"
    )]
    Unit(String),
    /// The epoch is out of bounds.
    #[error(
        "the epoch {0} ms is after the year 9999: it is a Unix time in milliseconds; write for \
         example 1767225600000"
    )]
    Epoch(u64),
}
