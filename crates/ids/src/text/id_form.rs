//! One form of text.

use crate::InputError;

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
        match self {
            IdForm::Decimal => "dec",
            IdForm::Hex => "hex",
            IdForm::Crockford => "base32",
            IdForm::Base62 => "base62",
            IdForm::Base58 => "base58",
            IdForm::Base36 => "base36",
        }
    }

    /// Returns the digits in the order of their values.
    fn alphabet(self) -> &'static [u8] {
        match self {
            IdForm::Decimal => b"0123456789",
            IdForm::Hex => b"0123456789abcdef",
            IdForm::Crockford => b"0123456789ABCDEFGHJKMNPQRSTVWXYZ",
            IdForm::Base62 => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            IdForm::Base58 => b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
            IdForm::Base36 => b"0123456789abcdefghijklmnopqrstuvwxyz",
        }
    }

    /// Returns the length to which ids are filled with zeros; 0 for none.
    fn width(self) -> usize {
        match self {
            IdForm::Hex => 16,
            IdForm::Crockford => 13,
            IdForm::Base62 => 11,
            IdForm::Decimal | IdForm::Base58 | IdForm::Base36 => 0,
        }
    }

    /// Returns whether a text of this length is likely an id in this form, 64 or 128 bits wide.
    pub(super) fn may_have(self, length: usize) -> bool {
        match self {
            IdForm::Decimal => false,
            IdForm::Hex => length == 16 || length == 32,
            IdForm::Crockford => length == 13 || length == 26,
            IdForm::Base62 => length == 11,
            IdForm::Base58 => (9..=11).contains(&length),
            IdForm::Base36 => (10..=13).contains(&length),
        }
    }

    /// Formats an id.
    pub fn format(self, id: u64) -> String {
        let alphabet = self.alphabet();
        let base = alphabet.len() as u64;
        let (mut digits, mut rest) = (Vec::new(), id);
        while rest > 0 || digits.len() < self.width().max(1) {
            digits.push(alphabet[(rest % base) as usize] as char);
            rest /= base;
        }
        digits.into_iter().rev().collect()
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
        let (form, (characters, example)) = (self.name(), self.describe());
        let bad = |why| InputError(format!("{why}; write in {form} for example {example}"));
        if text.is_empty() {
            return Err(bad(format!(
                "the id is empty: {form} has at least one character"
            )));
        }
        let base = self.alphabet().len() as u128;
        let mut number = 0u128;
        for (index, character) in text.chars().enumerate() {
            let digit = self.digit_of(character).ok_or_else(|| {
                let place = index + 1;
                bad(format!(
                    "{character:?} is no character of {form}: character {place} must be one of \
                     {characters}"
                ))
            })?;
            let shifted = number.checked_mul(base);
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
        let character = u8::try_from(character).ok()?;
        let digit = self.alphabet().iter().position(|c| *c == character)?;
        Some(digit as u128)
    }

    /// Describes the characters and gives an example of 64 bits.
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            IdForm::Decimal => ("the digits 0 to 9", "225912364091068416"),
            IdForm::Hex => ("0 to 9 and a to f", "03229a1924045000"),
            IdForm::Crockford => ("0 to 9 and letters except U", "068MT34J08M00"),
            IdForm::Base62 => ("0 to 9, A to Z and a to z", "0GggDr9nEwK"),
            IdForm::Base58 => ("1 to 9 and letters except I, O and l", "XR57j3BV3m"),
            IdForm::Base36 => ("0 to 9 and a to z", "1psf8zbrfl6o"),
        }
    }
}
