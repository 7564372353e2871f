//! Tokens: `sq_` and 256 random bits, and their hashes.
//!
//! Invariant: a token is written out only by [`Secret::expose`], and is never compared itself.
//! Servers and their files have its hash. An attacker cannot choose the bits of a hash, so the time
//! of a comparison of hashes tells nothing about a token.
//!
//! Schedule that breaks it: a failed call logs its request with `{:?}`, and every reader of the log
//! has the token.

use std::fmt::{self, Debug, Display, Formatter, Write};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// What each token begins with, so that people and scanners recognize one.
const TOKEN_PREFIX: &str = "sq_";
/// Bytes of randomness in a token.
const RANDOM_BYTES: usize = 32;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// Hexadecimal digits by which people tell hashes apart.
const SHORT_DIGITS: usize = 8;

/// A text that is no token. It is not part of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no token, which is {TOKEN_PREFIX} and 64 of 0-9 a-f; use one that `seqsvr auth add` made"
)]
pub struct BadSecret;

/// The operating system has no randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the operating system has no randomness; try again")]
pub struct NoRandomness;

/// A token.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Makes a token.
    ///
    /// # Errors
    /// The operating system has no randomness.
    pub fn generate() -> Result<Secret, NoRandomness> {
        let mut bytes = [0; RANDOM_BYTES];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| NoRandomness)?;
        Ok(Secret(format!("{TOKEN_PREFIX}{}", encode_hex(&bytes))))
    }

    /// Parses a token, which has no other form than [`expose`](Secret::expose) returns.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<Secret, BadSecret> {
        let digits = text.strip_prefix(TOKEN_PREFIX).ok_or(BadSecret)?;
        match decode_hex::<RANDOM_BYTES>(digits) {
            Some(_) => Ok(Secret(text.to_owned())),
            None => Err(BadSecret),
        }
    }

    /// Returns whether a text begins as a token does.
    pub(crate) fn is_prefix_of(text: &str) -> bool {
        text.starts_with(TOKEN_PREFIX)
    }

    /// Returns the SHA-256 of the token's text.
    pub fn hash(&self) -> SecretHash {
        let mut hash = [0; HASH_BYTES];
        hash.copy_from_slice(digest(&SHA256, self.0.as_bytes()).as_ref());
        SecretHash(hash)
    }

    /// Returns the token itself, for its holder only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The SHA-256 of a token, which tells nothing about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; HASH_BYTES]);

impl SecretHash {
    /// Parses 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<SecretHash> {
        decode_hex(text).map(SecretHash)
    }

    /// Returns the first digits, by which people tell the tokens of a principal apart.
    pub fn short(&self) -> String {
        let mut digits = self.to_string();
        digits.truncate(SHORT_DIGITS);
        digits
    }
}

impl Display for SecretHash {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_hex(&self.0))
    }
}

impl Debug for SecretHash {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHash({self})")
    }
}

fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Returns the bytes that digits in lower case stand for, if they are exactly so many.
fn decode_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_that_of_the_text_as_other_tools_see_it() {
        let token = format!("sq_{}", "0123456789abcdef".repeat(4));
        let secret = Secret::parse(&token).unwrap();
        assert_eq!(secret.expose(), token);
        // printf %s "$token" | sha256sum
        let hash = secret.hash();
        assert_eq!(
            hash.to_string(),
            "55fe88df63e5b5facd6ec16abca5f57a351f55412635dda3ed3223cbf251acb4"
        );
        assert_eq!(SecretHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(hash.short(), hash.to_string()[..8]);
    }

    #[test]
    fn tokens_differ_and_are_parsed_again() {
        let [one, other] = [(); 2].map(|()| Secret::generate().unwrap());
        assert_ne!(one.hash(), other.hash());
        assert_eq!(Secret::parse(one.expose()).unwrap().hash(), one.hash());
    }

    #[test]
    fn secret_is_not_in_what_is_printed() {
        let secret = Secret::generate().unwrap();
        assert_eq!(format!("{:?}", Some(&secret)), "Some(Secret(..))");
    }

    #[test]
    fn other_forms_are_no_token() {
        let digits = "0123456789abcdef".repeat(4);
        for text in [
            "",
            "sq_",
            &digits,
            &format!("SQ_{digits}"),
            &format!("sq_{}", &digits[1..]),
            &format!("sq_{digits}0"),
            &format!("sq_{}", digits.to_uppercase()),
            &format!("sq_{digits}\n"),
            &format!(" sq_{digits}"),
            &format!("sq_{}é", &digits[2..]),
        ] {
            assert_eq!(Secret::parse(text).err(), Some(BadSecret), "{text:?}");
        }
        assert_eq!(SecretHash::parse(&digits.to_uppercase()), None);
    }
}
