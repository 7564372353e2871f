//! Text that came over the network, in a form that a terminal or a text log may show.
//!
//! Invariant: printed text cannot end its line, move the cursor, turn the direction of what
//! follows, or hide a part of itself. Schedule that breaks it: a key, a name or an error text has a
//! line end, and the reader takes the rest for a line of the server. Or two names differ by an
//! invisible character, and the operator removes the wrong one.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Returns whether a character is invisible or changes how the text around it is shown: control and
/// format characters (categories Cc and Cf, with the marks of the writing direction), line and
/// paragraph separators, variation selectors, fillers, and all others that programs do not draw
/// (Default_Ignorable_Code_Point).
pub fn is_unprintable(c: char) -> bool {
    if c < '\u{ad}' {
        return c.is_control();
    }
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
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
            ("a\u{200b}\u{feff}1", r"a\u{200b}\u{feff}1"),
            (
                "a\u{ad}\u{2060}\u{3164}\u{180e}",
                r"a\u{ad}\u{2060}\u{3164}\u{180e}",
            ),
            (
                "a\u{fe0f}\u{e0041}\u{e0100}",
                r"a\u{fe0f}\u{e0041}\u{e0100}",
            ),
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
