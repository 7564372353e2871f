//! Ids as text: decimal, hex, Crockford's base 32, base 36, base 58 and base 62.
//!
//! Forms with leading zeros (hex, base 32, base 62) sort as the ids do.

mod epoch_text;
mod id_form;
mod long_form;

pub use epoch_text::parse_epoch;
pub use id_form::IdForm;
pub use long_form::format_long;

use crate::InputError;

/// Reads a text without knowing its form. Returns each form that it can be, with the number; the
/// likely ones first. A form in front decides, as in `base36:1psf8zbrfl6o`, and so does `0x`.
/// A text of digits is decimal.
///
/// # Errors
/// The text has no form.
pub fn read_any_form(text: &str) -> Result<Vec<(IdForm, u128)>, InputError> {
    let text = text.trim();
    let named = text.split_once(':').and_then(|(name, rest)| {
        let form = IdForm::ALL.into_iter().find(|form| form.name() == name)?;
        Some((form, rest))
    });
    let digits = text.strip_prefix('-').unwrap_or(text);
    let certain = match named {
        None if digits.bytes().all(|c| c.is_ascii_digit()) => Some((IdForm::Decimal, text)),
        None if text.starts_with("0x") => Some((IdForm::Hex, text)),
        named => named,
    };
    if let Some((form, text)) = certain {
        return Ok(vec![(form, form.parse(text)?)]);
    }
    let likely = IdForm::ALL.into_iter();
    let likely = likely.filter(|form| form.may_have(text.len()));
    let read = |form: IdForm| Some((form, form.parse(text).ok()?));
    let mut readings: Vec<_> = likely.filter_map(read).collect();
    // Few ids are wider than 64 bits.
    readings.sort_by_key(|(_, number)| *number > u64::MAX.into());
    match readings.is_empty() {
        true => Err(no_form(text)),
        false => Ok(readings),
    }
}

/// Returns the error of a text that can be no form.
pub fn no_form(text: &str) -> InputError {
    InputError(format!(
        "{text:?} is no id in any form: dec has digits, hex 16 characters, base32 13, base62 11, \
         base58 9 to 11, base36 10 to 13, a UUID 32 and hyphens; name the form in front, as in \
         base36:1psf8zbrfl6o"
    ))
}

#[cfg(test)]
mod tests;
