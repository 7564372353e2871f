//! What holds for every layout, and what a purpose requires in addition.

use super::{FieldKind, IdLayout, LayoutError, LayoutField, TickScale};

/// Bits of an id.
const ID_BITS: u32 = 64;
/// Bits in which a generator counts.
const POSITION_BITS: u32 = 63;
/// Bits of an integer that JavaScript reads exactly.
const JAVASCRIPT_BITS: u32 = 53;
/// Milliseconds of a year of 365.25 days.
const YEAR_MS: u64 = 31_557_600_000;

/// Checks each field, how many there are of each, and their sum.
pub(super) fn check_fields(fields: &[LayoutField], is_unsigned: bool) -> Result<(), LayoutError> {
    fields.iter().try_for_each(check_bits)?;
    check_counts(fields)?;
    let bits = fields.iter().map(|field| field.bits).sum();
    if bits > ID_BITS {
        let names: Vec<_> = fields
            .iter()
            .map(|f| format!("{} {}", f.kind.name(), f.bits))
            .collect();
        let sum = names.join(" + ");
        return Err(LayoutError::TooWide { sum, bits });
    }
    let has_zero_in_front = fields.first().is_some_and(|f| f.kind == FieldKind::Zero);
    if bits == ID_BITS && !is_unsigned && !has_zero_in_front {
        return Err(LayoutError::Sign);
    }
    let inverted = fields.iter().filter(|f| is_inverted(f.kind)).count();
    match inverted {
        1 => Err(LayoutError::Inversion),
        _ => Ok(()),
    }
}

fn is_inverted(kind: FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::Time { inverted: true } | FieldKind::Sequence { inverted: true }
    )
}

fn check_bits(field: &LayoutField) -> Result<(), LayoutError> {
    let bits = field.bits;
    let (min, max, example) = field.kind.bounds();
    if !(min..=max).contains(&bits) {
        return Err(LayoutError::Bits {
            field: field.kind.name(),
            bits,
            min,
            max,
            example,
        });
    }
    match field.kind {
        FieldKind::Constant(value) if value >> bits != 0 => Err(LayoutError::Constant {
            value,
            bits,
            max: (1 << bits) - 1,
        }),
        _ => Ok(()),
    }
}

fn check_counts(fields: &[LayoutField]) -> Result<(), LayoutError> {
    let count_of = |name| fields.iter().filter(|f| f.kind.name() == name).count();
    for field in ["time", "seq"] {
        let count = count_of(field);
        if count != 1 {
            let allowed = "one";
            return Err(LayoutError::Count {
                field,
                count,
                allowed,
            });
        }
    }
    for field in fields.iter().filter(|f| !f.kind.may_repeat()) {
        let field = field.kind.name();
        let count = count_of(field);
        if count > 1 {
            let allowed = "at most one";
            return Err(LayoutError::Count {
                field,
                count,
                allowed,
            });
        }
    }
    Ok(())
}

/// Checks that `time`, `lane` and `seq` fit the word of a generator.
pub(super) fn check_positions(layout: &IdLayout) -> Result<(), LayoutError> {
    let [time, lane, seq] = ["time", "lane", "seq"].map(|name| layout.bits_of(name));
    match time + lane + seq <= POSITION_BITS {
        true => Ok(()),
        false => Err(LayoutError::Positions { time, lane, seq }),
    }
}

/// Checks that every id is an exact number of JavaScript.
pub(super) fn check_exact_doubles(layout: &IdLayout) -> Result<(), LayoutError> {
    let bits = layout.total_bits();
    match bits <= JAVASCRIPT_BITS {
        true => Ok(()),
        false => Err(LayoutError::JavaScript { bits }),
    }
}

/// Checks that the ticks last.
pub(super) fn check_end(
    layout: &IdLayout,
    scale: TickScale,
    now_ms: u64,
    years_min: u32,
) -> Result<(), LayoutError> {
    let needed_ms = now_ms.saturating_add(YEAR_MS.saturating_mul(years_min.into()));
    let end_ms = layout.end_ms(scale);
    match needed_ms < end_ms {
        true => Ok(()),
        false => Err(LayoutError::Ended {
            bits: layout.bits_of("time"),
            unit_ms: scale.unit_ms(),
            epoch_ms: scale.epoch_ms(),
            end_ms,
            now_ms,
            needed_ms,
        }),
    }
}
