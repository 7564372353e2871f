//! Numbers that tell neither order nor volume: a keyed permutation.
//!
//! It is FF1 of NIST SP 800-38G with AES-256: the bits of the number are numerals of radix 2, the
//! name is the tweak.

use aes::Aes256;
use fpe::ff1::{FF1, FlexibleNumeralString, NumeralStringError};

use crate::InputError;

/// Hexadecimal digits of a key.
const KEY_DIGITS: usize = 64;

/// Numbers that an [`OpaqueNumbers`] permutes, by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpaqueWidth {
    /// Every number of 64 bits.
    Bits64 = 64,
    /// 0 to 2^53 - 1, which JavaScript reads exactly.
    Bits53 = 53,
}

/// A permutation of numbers, and its inverse.
///
/// It hides the order and the volume of numbers from those who do not have the key. It is no
/// authentication: each number shows some number, so a caller who guesses one is not rejected.
pub struct OpaqueNumbers {
    cipher: FF1<Aes256>,
    name: String,
    width: OpaqueWidth,
}

/// One direction of the cipher, under a tweak.
type Step = fn(
    &FF1<Aes256>,
    &[u8],
    &FlexibleNumeralString,
) -> Result<FlexibleNumeralString, NumeralStringError>;

impl OpaqueNumbers {
    /// Makes the permutation of a key and a name. Those of two names have nothing in common.
    ///
    /// # Errors
    /// The key has other than 64 hexadecimal digits; the error does not contain it.
    pub fn new(key: &str, name: &str, width: OpaqueWidth) -> Result<Self, InputError> {
        let digits = key.chars().map(|c| Some(c.to_digit(16)? as u8));
        let digits: Option<Vec<u8>> = digits.collect();
        let Some(digits) = digits.filter(|digits| digits.len() == KEY_DIGITS) else {
            return Err(InputError(format!(
                "key is malformed: {} bytes, not {KEY_DIGITS} hexadecimal digits; make one by \
                 `openssl rand -hex 32`",
                key.len()
            )));
        };
        let bytes = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]);
        let cipher = FF1::new(&bytes.collect::<Vec<_>>(), 2);
        Ok(Self {
            cipher: cipher.unwrap_or_else(|_| unreachable!("2 is a radix of FF1")),
            name: name.to_owned(),
            width,
        })
    }

    /// Hides a number.
    ///
    /// # Errors
    /// It has more bits than the width.
    pub fn hide(&self, number: u64) -> Result<u64, InputError> {
        self.permute(number, FF1::encrypt)
    }

    /// Shows a number that was hidden under the same key, name and width.
    ///
    /// # Errors
    /// It has more bits than the width.
    pub fn show(&self, hidden: u64) -> Result<u64, InputError> {
        self.permute(hidden, FF1::decrypt)
    }

    /// Permutes a number, whose numerals are its bits from the most significant one down.
    fn permute(&self, number: u64, step: Step) -> Result<u64, InputError> {
        let bits = self.width as u32;
        if number.leading_zeros() < u64::BITS - bits {
            return Err(InputError(format!(
                "number out of range: {number} is above 9007199254740991 (2^53 - 1); use 64 bits, \
                 or a lesser number such as 42"
            )));
        }
        let numerals = (0..bits).rev().map(|bit| (number >> bit & 1) as u16);
        let numerals = numerals.collect::<Vec<_>>().into();
        let permuted = step(&self.cipher, self.name.as_bytes(), &numerals);
        let permuted = permuted.unwrap_or_else(|_| unreachable!("53 or 64 bits"));
        let numerals = Vec::from(permuted).into_iter();
        Ok(numerals.fold(0, |number, bit| number << 1 | u64::from(bit)))
    }
}
