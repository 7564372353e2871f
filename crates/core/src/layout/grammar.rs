//! The text form of a layout.

use std::fmt;
use std::str::FromStr;

use super::{FieldKind, IdLayout, InputError, LayoutField};

/// The word in front of a layout whose ids may have the top bit.
const UNSIGNED: &str = "unsigned";

impl FromStr for IdLayout {
    type Err = InputError;

    fn from_str(text: &str) -> Result<IdLayout, InputError> {
        let mut parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let is_unsigned = parts.first() == Some(&UNSIGNED);
        if is_unsigned {
            parts.remove(0);
        }
        let fields: Result<Vec<_>, _> = parts.into_iter().map(parse_field).collect();
        IdLayout::new(fields?, is_unsigned)
    }
}

impl fmt::Display for IdLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        if self.is_unsigned() {
            f.write_str(UNSIGNED)?;
            comma = ",";
        }
        for field in self.fields() {
            write!(f, "{comma}{field}")?;
            comma = ",";
        }
        Ok(())
    }
}

fn parse_field(text: &str) -> Result<LayoutField, InputError> {
    let bad = || {
        InputError(format!(
            "{text:?} is no field of a layout: a field is name:bits, and the names are 0, time, \
             time~, dc, worker, lane, seq, seq~, const and rand; write for example time:41 or \
             const:4=9"
        ))
    };
    let (name, width) = text.split_once(':').ok_or_else(bad)?;
    let (width, value) = match width.split_once('=') {
        Some((width, value)) => (width, Some(value)),
        None => (width, None),
    };
    let kind = match (name, value) {
        ("const", Some(value)) => FieldKind::Constant(parse_decimal(value).ok_or_else(bad)?),
        ("0", None) => FieldKind::Zero,
        ("time", None) => FieldKind::Time { inverted: false },
        ("time~", None) => FieldKind::Time { inverted: true },
        ("dc", None) => FieldKind::DataCenter,
        ("worker", None) => FieldKind::Worker,
        ("lane", None) => FieldKind::Lane,
        ("seq", None) => FieldKind::Sequence { inverted: false },
        ("seq~", None) => FieldKind::Sequence { inverted: true },
        ("rand", None) => FieldKind::Random,
        _ => return Err(bad()),
    };
    let bits = parse_decimal(width).ok_or_else(bad)?;
    // A width above 32 bits is above every bound.
    let bits = u32::try_from(bits).unwrap_or(u32::MAX);
    Ok(LayoutField { kind, bits })
}

/// Parses digits only: no sign, no blank.
fn parse_decimal(text: &str) -> Option<u64> {
    let has_digits_only = text.bytes().all(|c| c.is_ascii_digit());
    has_digits_only.then(|| text.parse().ok()).flatten()
}
