//! Ids as text: decimal, hex, Crockford's base 32, base 36, base 58 and base 62.
//!
//! Forms with leading zeros (hex, base 32, base 62) sort as the ids do.

mod epoch_text;
mod id_form;
mod long_form;
mod text_error;

pub use epoch_text::{EpochTextError, parse_epoch};
pub use id_form::IdForm;
pub use long_form::format_long;
pub use text_error::IdTextError;

/// Reads a text without knowing its form. Returns each form that it can be, with the number; the
/// likely ones first. A form in front decides, as in `base36:1psf8zbrfl6o`, and so does `0x`.
/// A text of digits is decimal.
///
/// # Errors
/// The text has no form.
pub fn read_any_form(text: &str) -> Result<Vec<(IdForm, u128)>, IdTextError> {
    let text = text.trim();
    let of_prefix = text.split_once(':').and_then(|(name, rest)| {
        let form = IdForm::ALL.into_iter().find(|form| form.name() == name)?;
        Some((form, rest))
    });
    if let Some((form, rest)) = of_prefix {
        return Ok(vec![(form, form.parse(rest)?)]);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|c| c.is_ascii_digit()) {
        return Ok(vec![(IdForm::Decimal, IdForm::Decimal.parse(text)?)]);
    }
    if text.starts_with("0x") {
        return Ok(vec![(IdForm::Hex, IdForm::Hex.parse(text)?)]);
    }
    let mut readings = Vec::new();
    for form in IdForm::ALL
        .into_iter()
        .filter(|form| form.may_have(text.len()))
    {
        if let Ok(number) = form.parse(text) {
            readings.push((form, number));
        }
    }
    // Few ids are wider than 64 bits.
    readings.sort_by_key(|(_, number)| *number > u64::MAX.into());
    match readings.is_empty() {
        true => Err(IdTextError::NoForm(text.to_owned())),
        false => Ok(readings),
    }
}

#[cfg(test)]
mod tests;
