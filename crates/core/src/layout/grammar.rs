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
        let fields = parts.into_iter().map(parse_field);
        let layout = IdLayout {
            fields: fields.collect::<Result<_, _>>()?,
            is_unsigned,
        };
        layout.check()?;
        Ok(layout)
    }
}

impl fmt::Display for IdLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unsigned = self.is_unsigned.then(|| UNSIGNED.to_owned());
        let fields = self.fields.iter().map(LayoutField::to_string);
        let parts: Vec<String> = unsigned.into_iter().chain(fields).collect();
        f.write_str(&parts.join(","))
    }
}

impl From<IdLayout> for String {
    fn from(layout: IdLayout) -> String {
        layout.to_string()
    }
}

impl TryFrom<String> for IdLayout {
    type Error = InputError;

    fn try_from(text: String) -> Result<IdLayout, InputError> {
        text.parse()
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

/// Parses digits alone; None for a sign, a blank or more than 64 bits.
pub fn parse_decimal(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| !text.starts_with('+'))
}
