//! Numbers that tell neither order nor volume: a keyed permutation.
//!
//! It is FF1 of NIST SP 800-38G with AES-256: the bits of the number are numerals of radix 2, the
//! name is the tweak.

use aes::Aes256;
use fpe::ff1::{FF1, FlexibleNumeralString};

/// Numbers that an [`OpaqueNumbers`] permutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpaqueWidth {
    /// Every number of 64 bits.
    Bits64,
    /// 0 to 2^53 - 1, which JavaScript reads exactly.
    Bits53,
}

/// Key of a permutation.
#[derive(Clone)]
pub struct OpaqueKey([u8; 32]);

/// A permutation of numbers, and its inverse.
///
/// It hides the order and the volume of numbers from those who do not have the key. It is no
/// authentication: each number shows some number, so a caller who guesses one is not rejected.
pub struct OpaqueNumbers {
    cipher: FF1<Aes256>,
    name: String,
    width: OpaqueWidth,
}

/// Why a number cannot be hidden or shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpaqueError {
    /// The key is malformed; the error does not contain it.
    #[error(
        "key is malformed: {length} bytes, not 64 hexadecimal digits; make one by `openssl rand -hex 32`"
    )]
    Key {
        /// Its bytes.
        length: usize,
    },
    /// The number has more than 53 bits.
    #[error(
        "number out of range: {0} is above 9007199254740991 (2^53 - 1); use 64 bits, or a lesser number \
         such as 42"
    )]
    TooLarge(u64),
}

impl OpaqueWidth {
    /// Returns the width in bits.
    pub fn bits(self) -> u32 {
        match self {
            Self::Bits64 => 64,
            Self::Bits53 => 53,
        }
    }
}

impl std::str::FromStr for OpaqueKey {
    type Err = OpaqueError;

    fn from_str(text: &str) -> Result<Self, OpaqueError> {
        let bad = || OpaqueError::Key { length: text.len() };
        let mut key = [0; 32];
        if text.len() != 2 * key.len() || !text.bytes().all(|c| c.is_ascii_hexdigit()) {
            return Err(bad());
        }
        for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(key))
    }
}

impl OpaqueNumbers {
    /// Makes the permutation of a key and a name. Those of two names have nothing in common.
    pub fn new(key: &OpaqueKey, name: &str, width: OpaqueWidth) -> Self {
        let cipher = FF1::new(&key.0, 2).unwrap_or_else(|_| unreachable!("2 is a radix of FF1"));
        let name = name.to_owned();
        Self {
            cipher,
            name,
            width,
        }
    }

    /// Hides a number.
    ///
    /// # Errors
    /// It has more bits than the width.
    pub fn hide(&self, number: u64) -> Result<u64, OpaqueError> {
        let hidden = self
            .cipher
            .encrypt(self.name.as_bytes(), &self.to_numerals(number)?);
        Ok(from_numerals(
            hidden.unwrap_or_else(|_| unreachable!("53 or 64 bits")),
        ))
    }

    /// Shows a number that was hidden under the same key, name and width.
    ///
    /// # Errors
    /// It has more bits than the width.
    pub fn show(&self, hidden: u64) -> Result<u64, OpaqueError> {
        let number = self
            .cipher
            .decrypt(self.name.as_bytes(), &self.to_numerals(hidden)?);
        Ok(from_numerals(
            number.unwrap_or_else(|_| unreachable!("53 or 64 bits")),
        ))
    }

    /// Returns the bits from the most significant one down.
    fn to_numerals(&self, number: u64) -> Result<FlexibleNumeralString, OpaqueError> {
        let bits = self.width.bits();
        if number.leading_zeros() < u64::BITS - bits {
            return Err(OpaqueError::TooLarge(number));
        }
        let numerals = (0..bits).rev().map(|bit| (number >> bit & 1) as u16);
        Ok(numerals.collect::<Vec<_>>().into())
    }
}

fn from_numerals(numerals: FlexibleNumeralString) -> u64 {
    let bits: Vec<u16> = numerals.into();
    bits.into_iter()
        .fold(0, |number, bit| number << 1 | u64::from(bit))
}
