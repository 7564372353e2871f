//! One form of text.

use crate::InputError;

/// Digits, then letters as they sort, without four that are read as others.
const BASE32: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE36: &str = "0123456789abcdefghijklmnopqrstuvwxyz";
const BASE58: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE58_IN_WORDS: &str = "1 to 9 and letters except I, O and l";
const BASE62: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Name of a form; its digits in the order of their values, and in words; length to which ids are
/// filled with zeros, 0 for none; other lengths of texts that are likely ids.
type FormRow = (
    &'static str,
    &'static str,
    &'static str,
    usize,
    &'static [usize],
);
/// An id that errors write in the form that they expect.
const EXAMPLE: u64 = 225_912_364_091_068_416;

/// A way to write an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdForm {
    /// Digits; a negative number is a signed id.
    Decimal,
    /// 16 hexadecimal digits.
    Hex,
    /// 13 characters of Crockford's base 32.
    Crockford,
    /// Digits and capitals and small letters, 11 characters.
    Base62,
    /// The alphabet of Bitcoin addresses.
    Base58,
    /// Digits and small letters.
    Base36,
}

impl IdForm {
    /// Every form.
    pub const ALL: [IdForm; 6] = [
        IdForm::Decimal,
        IdForm::Hex,
        IdForm::Crockford,
        IdForm::Base62,
        IdForm::Base58,
        IdForm::Base36,
    ];

    /// Returns the name that flags and prefixes use.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    fn row(self) -> FormRow {
        match self {
            IdForm::Decimal => ("dec", &BASE36[..10], "the digits 0 to 9", 0, &[]),
            IdForm::Hex => ("hex", &BASE36[..16], "0 to 9 and a to f", 16, &[32]),
            IdForm::Crockford => ("base32", BASE32, "0 to 9 and letters except U", 13, &[26]),
            IdForm::Base62 => ("base62", BASE62, "0 to 9, A to Z and a to z", 11, &[]),
            IdForm::Base58 => ("base58", BASE58, BASE58_IN_WORDS, 0, &[9, 10, 11]),
            IdForm::Base36 => ("base36", BASE36, "0 to 9 and a to z", 0, &[10, 11, 12, 13]),
        }
    }

    /// Returns whether a text of this length is likely an id in this form, 64 or 128 bits wide.
    pub(super) fn may_have(self, length: usize) -> bool {
        let (.., width, lengths) = self.row();
        length == width || lengths.contains(&length)
    }

    /// Formats an id.
    pub fn format(self, id: u64) -> String {
        let (_, digits, _, width, _) = self.row();
        let base = digits.len() as u64;
        let (mut text, mut rest) = (Vec::new(), id);
        while rest > 0 || text.len() < width.max(1) {
            text.push(digits.as_bytes()[(rest % base) as usize] as char);
            rest /= base;
        }
        text.into_iter().rev().collect()
    }

    /// Parses a text of up to 128 bits. A negative decimal is the signed form of an id of 64 bits.
    /// Hex, base 32 and base 36 have no case; base 32 reads `i`, `l` and `o` as digits.
    ///
    /// # Errors
    /// The text is empty, has a character that the form does not have, or more than 128 bits.
    pub fn parse(self, text: &str) -> Result<u128, InputError> {
        match (self, text.strip_prefix('-'), text.strip_prefix("0x")) {
            (IdForm::Decimal, Some(digits), _) => {
                let magnitude = u64::try_from(self.parse_digits(digits)?).unwrap_or(u64::MAX);
                let id = 0i64.checked_sub_unsigned(magnitude);
                id.map(|id| u128::from(id as u64)).ok_or_else(|| {
                    InputError(format!(
                        "{text:?} is too small: a signed id is -9223372036854775808 or greater; \
                         write for example -9223372036854771712"
                    ))
                })
            }
            (IdForm::Hex, _, Some(digits)) => self.parse_digits(digits),
            _ => self.parse_digits(text),
        }
    }

    fn parse_digits(self, text: &str) -> Result<u128, InputError> {
        let (form, digits, characters, ..) = self.row();
        let bad = |why| {
            let example = self.format(EXAMPLE);
            InputError(format!("{why}; write in {form} for example {example}"))
        };
        if text.is_empty() {
            return Err(bad(format!(
                "the id is empty: {form} has at least one character"
            )));
        }
        let mut number = 0u128;
        for (index, character) in text.chars().enumerate() {
            let digit = self.digit_of(character).ok_or_else(|| {
                let place = index + 1;
                bad(format!(
                    "{character:?} is no character of {form}: character {place} must be one of \
                     {characters}"
                ))
            })?;
            let shifted = number.checked_mul(digits.len() as u128);
            let sum = shifted.and_then(|number| number.checked_add(digit));
            let too_large = || format!("{text:?} is too large: an id has at most 128 bits");
            number = sum.ok_or_else(|| bad(too_large()))?;
        }
        Ok(number)
    }

    fn digit_of(self, character: char) -> Option<u128> {
        let character = match (self, character) {
            (IdForm::Hex | IdForm::Base36, c) => c.to_ascii_lowercase(),
            (IdForm::Crockford, 'o' | 'O') => '0',
            (IdForm::Crockford, 'i' | 'I' | 'l' | 'L') => '1',
            (IdForm::Crockford, c) => c.to_ascii_uppercase(),
            (_, c) => c,
        };
        let (_, digits, ..) = self.row();
        Some(digits.find(character)? as u128)
    }
}
