//! What holds for every layout, and what a purpose requires in addition.

use super::{FieldKind, IdLayout, InputError, LayoutField, TickScale, format_utc_ms};

/// Bits of an id.
const ID_BITS: u32 = 64;
/// Bits in which a generator counts.
const POSITION_BITS: u32 = 63;
/// Bits of an integer that JavaScript reads exactly.
const JAVASCRIPT_BITS: u32 = 53;
/// A layout that is accepted.
const EXAMPLE: &str = "0:1,time:41,worker:10,seq:12";
/// Milliseconds of a year of 365.25 days.
const YEAR_MS: u64 = 31_557_600_000;

/// Returns the error of a failed check.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), InputError> {
    match holds {
        true => Ok(()),
        false => Err(InputError(text())),
    }
}

/// Checks each field, how many there are of each, and their sum.
pub(super) fn check_fields(fields: &[LayoutField], is_unsigned: bool) -> Result<(), InputError> {
    for field in fields {
        check_bits(field)?;
        check_count(field.kind.name(), field.kind.may_repeat(), fields)?;
    }
    check_count("time", false, fields)?;
    check_count("seq", false, fields)?;
    let bits: u32 = fields.iter().map(|field| field.bits).sum();
    ensure(bits <= ID_BITS, || {
        let name = |f: &LayoutField| format!("{} {}", f.kind.name(), f.bits);
        let sum = fields.iter().map(name).collect::<Vec<_>>().join(" + ");
        let excess = bits - ID_BITS;
        format!("{sum} are {bits} bits: an id has 1 to 64; take {excess} away, as in {EXAMPLE}")
    })?;
    let has_zero_in_front = fields.first().is_some_and(|f| f.kind == FieldKind::Zero);
    ensure(bits < ID_BITS || is_unsigned || has_zero_in_front, || {
        format!(
            "the layout has 64 bits and uses the sign: a signed id has 63; begin with 0:1, as in \
             {EXAMPLE}, or with the word unsigned, as in unsigned,time:42,worker:10,seq:12"
        )
    })?;
    let is_inverted = |name| {
        let mut named = fields.iter().filter(|field| field.kind.name() == name);
        named.any(|field| field.kind.is_inverted())
    };
    ensure(is_inverted("time") == is_inverted("seq"), || {
        let example = "0:1,time~:41,worker:10,seq~:12";
        format!(
            "only one of time and seq is inverted: both are, or none; write for example {example}"
        )
    })
}

fn check_bits(field: &LayoutField) -> Result<(), InputError> {
    let (name, bits) = (field.kind.name(), field.bits);
    let (min, max, example) = field.kind.bounds();
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

fn check_count(name: &str, may_repeat: bool, fields: &[LayoutField]) -> Result<(), InputError> {
    let count = fields.iter().filter(|f| f.kind.name() == name).count();
    ensure(count == 1 || may_repeat, || {
        let allowed = match name {
            "time" | "seq" => "one",
            _ => "at most one",
        };
        format!(
            "the layout has {count} fields {name}: it must have {allowed}; write for example \
             {EXAMPLE}"
        )
    })
}

impl IdLayout {
    /// Checks that a generator can count positions of this layout in 63 bits.
    ///
    /// # Errors
    /// `time`, `lane` and `seq` have more than 63 bits together.
    pub fn check_for_generator(&self) -> Result<(), InputError> {
        let [time, lane, seq] = ["time", "lane", "seq"].map(|name| self.bits_of(name));
        let bits = time + lane + seq;
        ensure(bits <= POSITION_BITS, || {
            let excess = bits - POSITION_BITS;
            format!(
                "time {time} + lane {lane} + seq {seq} are {bits} bits: a generator counts in at \
                 most 63; take {excess} away, as in time:41,seq:12"
            )
        })
    }

    /// Checks that JavaScript reads every id exactly.
    ///
    /// # Errors
    /// The layout has more than 53 bits.
    pub fn check_for_javascript(&self) -> Result<(), InputError> {
        let bits = self.total_bits();
        ensure(bits <= JAVASCRIPT_BITS, || {
            format!(
                "the layout has {bits} bits: JavaScript reads at most 53 exactly; write for \
                 example time:41,worker:3,seq:9"
            )
        })
    }

    /// Checks that ids can be made for `years_min` years from `now_ms` on.
    ///
    /// # Errors
    /// The time of the layout is over, or ends before.
    pub fn check_life(
        &self,
        scale: TickScale,
        now_ms: u64,
        years_min: u32,
    ) -> Result<(), InputError> {
        let needed_ms = now_ms.saturating_add(YEAR_MS.saturating_mul(years_min.into()));
        let end_ms = self.end_ms(scale);
        ensure(needed_ms < end_ms, || {
            let (bits, unit_ms) = (self.bits_of("time"), scale.unit_ms());
            let [epoch, end, needed] = [scale.epoch_ms(), end_ms, needed_ms].map(format_utc_ms);
            let verb = if end_ms <= now_ms { "ended" } else { "ends" };
            format!(
                "time:{bits} in units of {unit_ms} ms since {epoch} {verb} on {end}: ids are \
                 needed until {needed}; give a later epoch, or time more bits"
            )
        })
    }
}
