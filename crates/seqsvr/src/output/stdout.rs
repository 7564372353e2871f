//! Results on stdout. A command ends without an error when the reader closes the pipe (`| head`).
//!
//! Results have text that came over the network, such as names and addresses. A row of an older
//! build may have any address.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, BufWriter, Write as _};

use seqsvr_proto::printable::{is_unprintable, printable};

/// Prints one result line. Escapes line ends and other unprintable characters in it.
pub(crate) fn print_line(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{}", printable(&text.to_string()))
}

/// Prints a row of two columns with a tab between them.
pub(crate) fn print_row(key: &str, value: impl Display) -> io::Result<()> {
    let value = value.to_string();
    let (key, value) = (printable(key), printable(&value));
    writeln!(io::stdout().lock(), "{key}\t{value}")
}

/// Prints text that this process made, such as a script, as it is.
pub(crate) fn print_text(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Prints lines that this process makes, many at once. The first error ends it, after the lines
/// before.
pub(crate) fn print_lines(
    mut lines: impl Iterator<Item = anyhow::Result<String>>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let printed = lines.try_for_each(|line| Ok(writeln!(out, "{}", line?)?));
    out.flush()?;
    printed
}

/// Prints a JSON document on one line or several. Escapes unprintable characters as JSON does.
pub(crate) fn print_json(json: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{}", escape_in_json(&json.to_string()))
}

/// Returns the document with unprintable characters escaped. Outside of its strings it has none but
/// line ends, and in its strings line ends are escaped.
pub(super) fn escape_in_json(json: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| c != '\n' && is_unprintable(c);
    if !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns whether a command failed only because the reader of stdout closed the pipe.
pub(crate) fn is_closed_stdout(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_with_unprintable_text_is_the_same_document() {
        let document = json!({ "address": "a\n\u{1b}[2J\u{202e}\u{9b}\u{7f}\u{200b}\u{feff}\u{e0041}\"\\", "n": [1, "ü"] });
        for text in [
            document.to_string(),
            serde_json::to_string_pretty(&document).unwrap(),
        ] {
            let escaped = escape_in_json(&text);
            let unprintable = |c: char| c != '\n' && is_unprintable(c);
            assert!(!escaped.contains(unprintable), "{escaped}");
            assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), document);
        }
    }
}
