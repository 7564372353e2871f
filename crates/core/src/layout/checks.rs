//! What holds for every layout, and what a purpose requires in addition.

use super::{FieldKind, IdLayout, InputError, LayoutField, TickScale, format_utc_ms};

/// Bits of an id.
const ID_BITS: u32 = 64;
/// A layout that is accepted.
const EXAMPLE: &str = "0:1,time:41,worker:10,seq:12";

/// Returns the error of a failed check.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), InputError> {
    match holds {
        true => Ok(()),
        false => Err(InputError(text())),
    }
}

fn check_bits(field: &LayoutField) -> Result<(), InputError> {
    let ((name, min, max, example), bits) = (field.kind.rule(), field.bits);
    ensure((min..=max).contains(&bits), || {
        let bits = match bits {
            u32::MAX => String::from("too many"),
            bits => bits.to_string(),
        };
        format!("{name} has {bits} bits: it may have {min} to {max}; write for example {example}")
    })?;
    let FieldKind::Constant(value) = field.kind else {
        return Ok(());
    };
    let max = (1 << bits) - 1;
    ensure(value <= max, || {
        format!(
            "const is {value}: in {bits} bits it may be 0 to {max}; write for example \
             const:{bits}={max}"
        )
    })
}

impl IdLayout {
    /// Checks each field, how many there are of each, and their sum.
    pub(super) fn check(&self) -> Result<(), InputError> {
        self.fields.iter().try_for_each(check_bits)?;
        for (name, min) in [
            ("time", 1),
            ("dc", 0),
            ("worker", 0),
            ("lane", 0),
            ("seq", 1),
        ] {
            let named = self.fields.iter().filter(|f| f.kind.name() == name);
            let count = named.count();
            ensure((min..=1).contains(&count), || {
                let allowed = if min == 1 { "one" } else { "at most one" };
                format!(
                    "the layout has {count} fields {name}: it must have {allowed}; write for \
                     example {EXAMPLE}"
                )
            })?;
        }
        let bits = self.total_bits();
        ensure(bits <= ID_BITS, || {
            let name = |f: &LayoutField| format!("{} {}", f.kind.name(), f.bits);
            let sum = self.fields.iter().map(name).collect::<Vec<_>>().join(" + ");
            let excess = bits - ID_BITS;
            format!("{sum} are {bits} bits: an id has 1 to 64; take {excess} away, as in {EXAMPLE}")
        })?;
        let front = self.fields.first().map(|field| field.kind);
        let has_sign = bits == ID_BITS && front != Some(FieldKind::Zero);
        ensure(self.is_unsigned || !has_sign, || {
            format!(
                "the layout has 64 bits and uses the sign: a signed id has 63; begin with 0:1, as \
                 in {EXAMPLE}, or with the word unsigned, as in unsigned,time:42,worker:10,seq:12"
            )
        })?;
        // Only time and seq can be inverted, and there is one of each.
        let inverted = self.fields.iter().filter(|f| f.kind.is_inverted());
        ensure(inverted.count() != 1, || {
            let example = "0:1,time~:41,worker:10,seq~:12";
            format!(
                "only one of time and seq is inverted: both are, or none; write for example \
                 {example}"
            )
        })
    }

    /// Checks that ids can be made at `now_ms`.
    ///
    /// # Errors
    /// The time of the layout is over.
    pub fn check_life(&self, scale: TickScale, now_ms: u64) -> Result<(), InputError> {
        let end_ms = self.end_ms(scale);
        ensure(now_ms < end_ms, || {
            let (bits, unit_ms) = (self.bits_of("time"), scale.unit_ms());
            let [epoch, end, now] = [scale.epoch_ms(), end_ms, now_ms].map(format_utc_ms);
            format!(
                "time:{bits} in units of {unit_ms} ms since {epoch} ended on {end}: ids are needed \
                 on {now}; give a later epoch, such as 2026-01-01, or time more bits"
            )
        })
    }
}
