//! Text that came over the network, in a form that a terminal or a text log may show.
//!
//! Invariant: printed text cannot end its line, move the cursor, or turn the direction of what
//! follows. Schedule that breaks it: a key, a name or an error text has a line end, and the reader
//! takes the rest for a line of the server.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Returns whether a character changes how the text around it is shown: control characters, line
/// and paragraph separators, and marks of the writing direction.
pub fn is_unprintable(c: char) -> bool {
    let changes_direction = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let separates_lines = matches!(c, '\u{2028}' | '\u{2029}');
    c.is_control() || separates_lines || changes_direction
}

/// Returns the text with `\u{…}` in place of each unprintable character.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    // Writing to a string cannot fail.
    let _ = write_printable(&mut out, text);
    Cow::Owned(out)
}

/// Writes the text with `\u{…}` in place of each unprintable character.
///
/// # Errors
/// The writer returns an error.
pub fn write_printable(out: &mut impl Write, text: &str) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(is_unprintable) {
        let (clean, tail) = rest.split_at(at);
        out.write_str(clean)?;
        let mut chars = tail.chars();
        if let Some(c) = chars.next() {
            write!(out, "{}", c.escape_unicode())?;
        }
        rest = chars.as_str();
    }
    out.write_str(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_is_unchanged_and_the_rest_escaped() {
        for text in ["", "alice", "müller 漢字 🎉", r#"<img> "quoted" \u{a}"#] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
        for (text, shown) in [
            ("a\nb", r"a\u{a}b"),
            ("\r\n", r"\u{d}\u{a}"),
            ("\u{1b}[2Jx", r"\u{1b}[2Jx"),
            ("a\tb\0", r"a\u{9}b\u{0}"),
            ("\u{7f}\u{85}\u{9b}31m", r"\u{7f}\u{85}\u{9b}31m"),
            ("user\u{202e}nimda", r"user\u{202e}nimda"),
            (
                "\u{2066}x\u{2069}\u{200e}\u{200f}\u{61c}",
                r"\u{2066}x\u{2069}\u{200e}\u{200f}\u{61c}",
            ),
            ("x\u{2028}y\u{2029}", r"x\u{2028}y\u{2029}"),
        ] {
            assert_eq!(printable(text), shown, "{text:?}");
            assert!(!printable(text).contains(is_unprintable));
        }
    }

    /// Bytes that are no text, such as half of a surrogate pair, are replaced when they are
    /// decoded.
    #[test]
    fn unpaired_surrogate_is_replaced() {
        let half = String::from_utf8_lossy(b"a\xed\xa0\xbdb");
        assert!(!printable(&half).contains(is_unprintable));
        assert!(printable(&half).starts_with("a\u{fffd}"));
    }
}
