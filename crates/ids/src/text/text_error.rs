//! Why a text is no id.

use super::IdForm;

/// A text that is no id in a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdTextError {
    /// There is no text.
    #[error(
        "the id is empty: {} has at least one character; write for example {}",
        .0.name(),
        .0.describe().1
    )]
    Empty(IdForm),
    /// A character is not in the alphabet.
    #[error(
        "{character:?} is no character of {}: character {} must be one of {}; write for example {}",
        form.name(),
        index + 1,
        form.describe().0,
        form.describe().1
    )]
    Character {
        /// The form.
        form: IdForm,
        /// The character.
        character: char,
        /// Its offset in bytes.
        index: usize,
    },
    /// The number has more than 128 bits.
    #[error(
        "{text:?} is too large: an id has at most 128 bits; write in {} for example {}",
        form.name(),
        form.describe().1
    )]
    TooLarge {
        /// The form.
        form: IdForm,
        /// The text.
        text: String,
    },
    /// The number is below all signed ids.
    #[error(
        "{0:?} is too small: a signed id is -9223372036854775808 or greater; write for example \
         -9223372036854771712"
    )]
    TooSmall(String),
    /// The text can be no form.
    #[error(
        "{0:?} is an id in no form: dec has digits, hex 16 characters, base32 13, base62 11, base58 \
         9 to 11, base36 10 to 13; name the form in front, as in base36:1psf8zbrfl6o"
    )]
    NoForm(String),
}
