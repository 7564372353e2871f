//! Words of an inline request: quotes and escapes as in Redis.

use std::ops::Range;

use super::ProtocolError;

/// Writes the words of a line at its beginning, without quotes and escapes: the kept text is never
/// longer than the text that was read.
pub(super) struct InlineUnquoter<'a> {
    line: &'a mut [u8],
    read: usize,
    kept: usize,
}

impl<'a> InlineUnquoter<'a> {
    pub(super) fn new(line: &'a mut [u8]) -> InlineUnquoter<'a> {
        InlineUnquoter {
            line,
            read: 0,
            kept: 0,
        }
    }

    /// Reads a word. Whitespace separates words; a word may be quoted, with escapes within double
    /// quotes.
    pub(super) fn next_word(&mut self) -> Result<Option<Range<usize>>, ProtocolError> {
        while self
            .peek_byte()
            .is_some_and(|byte| byte.is_ascii_whitespace())
        {
            self.read += 1;
        }
        let begin = self.kept;
        match self.peek_byte() {
            None => return Ok(None),
            Some(quote @ (b'"' | b'\'')) => {
                self.read += 1;
                self.unquote(quote)?;
                // A word ends with its quotes.
                if self
                    .peek_byte()
                    .is_some_and(|next| !next.is_ascii_whitespace())
                {
                    return Err(ProtocolError::UnbalancedQuotes);
                }
            }
            Some(_) => {
                while let Some(byte) = self.peek_byte().filter(|byte| !byte.is_ascii_whitespace()) {
                    self.read += 1;
                    self.keep_byte(byte);
                }
            }
        }
        Ok(Some(begin..self.kept))
    }

    fn peek_byte(&self) -> Option<u8> {
        self.line.get(self.read).copied()
    }

    fn next_byte(&mut self) -> Result<u8, ProtocolError> {
        let byte = self.peek_byte().ok_or(ProtocolError::UnbalancedQuotes)?;
        self.read += 1;
        Ok(byte)
    }

    fn keep_byte(&mut self, byte: u8) {
        self.line[self.kept] = byte;
        self.kept += 1;
    }

    /// Reads the text between quotes, and the second quote.
    fn unquote(&mut self, quote: u8) -> Result<(), ProtocolError> {
        loop {
            let byte = self.next_byte()?;
            if byte == quote {
                return Ok(());
            }
            if byte != b'\\' {
                self.keep_byte(byte);
                continue;
            }
            match (quote, self.next_byte()?) {
                (b'"', b'x') => {
                    let (high, low) = (self.hex_digit()?, self.hex_digit()?);
                    self.keep_byte(high << 4 | low);
                }
                (b'"', b'n') => self.keep_byte(b'\n'),
                (b'"', b'r') => self.keep_byte(b'\r'),
                (b'"', b't') => self.keep_byte(b'\t'),
                (b'"', b'a') => self.keep_byte(7),
                (b'"', b'b') => self.keep_byte(8),
                (b'"', other) | (_, other @ b'\'') => self.keep_byte(other),
                (_, other) => {
                    self.keep_byte(b'\\');
                    self.keep_byte(other);
                }
            }
        }
    }

    fn hex_digit(&mut self) -> Result<u8, ProtocolError> {
        let digit = char::from(self.next_byte()?).to_digit(16);
        digit
            .map(|d| d as u8)
            .ok_or(ProtocolError::UnbalancedQuotes)
    }
}
