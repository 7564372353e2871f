//! Why a text is no id.

/// A text that is no id in a form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdTextError {
    /// There is no text.
    #[error("the id is empty: {form} has at least one character; write for example {example}")]
    Empty {
        /// Name of the form.
        form: &'static str,
        /// An id in this form.
        example: &'static str,
    },
    /// A character is not in the alphabet.
    #[error(
        "{character:?} is no character of {form}: character {place} must be one of {characters}; \
         write for example {example}"
    )]
    Character {
        /// Name of the form.
        form: &'static str,
        /// The character.
        character: char,
        /// Which character of the text, from 1.
        place: usize,
        /// The characters of the form.
        characters: &'static str,
        /// An id in this form.
        example: &'static str,
    },
    /// The number has more than 128 bits.
    #[error(
        "{text:?} is too large: an id has at most 128 bits; write in {form} for example {example}"
    )]
    TooLarge {
        /// Name of the form.
        form: &'static str,
        /// The text.
        text: String,
        /// An id in this form.
        example: &'static str,
    },
    /// The number is below all signed ids.
    #[error(
        "{0:?} is too small: a signed id is -9223372036854775808 or greater; write for example \
         -9223372036854771712"
    )]
    TooSmall(String),
    /// The text can be no form.
    #[error(
        "{0:?} is no id in any form: dec has digits, hex 16 characters, base32 13, base62 11, \
         base58 9 to 11, base36 10 to 13, a UUID 32 and hyphens; name the form in front, as in base36:1psf8zbrfl6o"
    )]
    NoForm(String),
}
