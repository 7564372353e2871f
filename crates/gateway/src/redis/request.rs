//! Requests as Redis clients write them: arrays of bulk strings, or a line of words.
//!
//! Our own, for speed: a parser of a library takes 97 to 360 ns a command, this one 11 to 33
//! (`INCR` of a key of 17 bytes, pipelines of 1 to 100). In a pipeline of 100 a command may cost
//! about 400 ns in all.
//!
//! Invariants: a byte is looked at once, however slowly a request arrives; and the size of a
//! request is bounded before it is kept ([`ARGS_MAX`], [`ARG_MAX`], [`LINE_MAX`], [`REQUEST_MAX`]).

use std::fmt;
use std::ops::Range;

/// Most words of a request: an MGET of as many keys as a batch may have items.
const ARGS_MAX: usize = 10_001;
/// Longest word, bytes. Keys are shorter; a longer key must be rejected by name, not as a broken
/// protocol.
const ARG_MAX: usize = 16 << 10;
/// Longest line: of an inline request, as in Redis.
const LINE_MAX: usize = 64 << 10;
/// Longest request, bytes: an MGET of as many keys as there may be, of the longest.
pub(super) const REQUEST_MAX: usize = 2 << 20;
/// Words and requests for which there is room at all times.
const KEPT: usize = 256;
/// Longest number of a length, with its sign.
const DIGITS_MAX: usize = 20;

/// Why a connection cannot continue: its bytes are not requests. The texts are those of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    Count,
    Length,
    NotABulk(u8),
    LongNumber,
    LongLine,
    LongRequest,
    Quotes,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Count => write!(f, "invalid multibulk length; there may be {ARGS_MAX} words"),
            Broken::Length => write!(f, "invalid bulk length; a word may have {ARG_MAX} bytes"),
            Broken::NotABulk(byte) => write!(f, "expected '$', got '{}'", byte.escape_ascii()),
            Broken::LongNumber => f.write_str("too big count string"),
            Broken::LongLine => f.write_str("too big inline request"),
            Broken::LongRequest => write!(f, "a request may have {REQUEST_MAX} bytes"),
            Broken::Quotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

/// Requests that were read and are not answered yet, and the read part of the next one.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Number of bytes read.
    at: usize,
    /// Words of the present request still to come; None: its first line was not read yet.
    left: Option<usize>,
    /// Words of all requests.
    words: Vec<Range<u32>>,
    /// Where the words and the bytes of each whole request end.
    ends: Vec<End>,
}

#[derive(Clone, Copy, Debug, Default)]
struct End {
    words: usize,
    bytes: usize,
}

impl Requests {
    /// Continues to read bytes that begin with the first of these requests, until there are `most`
    /// whole ones. Words of a line are left in its place without their quotes.
    ///
    /// # Errors
    /// [`Broken`], after which nothing more can be read; the whole requests before it stay.
    pub(super) fn read(&mut self, bytes: &mut [u8], most: usize) -> Result<(), Broken> {
        while self.ends.len() < most {
            let begin = self.end();
            if !self.read_one(bytes)? {
                return match self.at - begin > REQUEST_MAX {
                    true => Err(Broken::LongRequest),
                    false => Ok(()),
                };
            }
            self.left = None;
            self.ends.push(End {
                words: self.words.len(),
                bytes: self.at,
            });
        }
        Ok(())
    }

    /// Returns the number of whole requests.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of the whole requests.
    pub(super) fn end(&self) -> usize {
        self.ends.last().map_or(0, |end| end.bytes)
    }

    /// Returns the words of the i-th whole request, from the same bytes.
    pub(super) fn words<'a>(
        &self,
        i: usize,
        bytes: &'a [u8],
    ) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let before = i.checked_sub(1).map(|i| self.ends[i]).unwrap_or_default();
        let words = &self.words[before.words..self.ends[i].words];
        words
            .iter()
            .map(move |word| &bytes[word.start as usize..word.end as usize])
    }

    /// Discards the whole requests, whose bytes were taken away.
    pub(super) fn forget(&mut self) {
        let Some(end) = self.ends.last().copied() else {
            return;
        };
        self.ends.clear();
        self.words.drain(..end.words);
        // One long request must not keep its memory permanently.
        self.ends.shrink_to(KEPT);
        self.words.shrink_to(KEPT);
        for word in &mut self.words {
            *word = word.start - end.bytes as u32..word.end - end.bytes as u32;
        }
        self.at -= end.bytes;
    }

    /// Reads the present request; returns whether it is whole.
    fn read_one(&mut self, bytes: &mut [u8]) -> Result<bool, Broken> {
        let left = match self.left {
            Some(left) => left,
            None => {
                // Where the present request begins; a line may have been read in part.
                let begin = self.end();
                match bytes.get(begin) {
                    None => return Ok(false),
                    Some(b'*') => {
                        let Some((count, end)) = number(bytes, begin + 1, Broken::Count)? else {
                            return Ok(false);
                        };
                        // Redis ignores an absent and an empty request.
                        let count = usize::try_from(count.max(0)).map_err(|_| Broken::Count)?;
                        if count > ARGS_MAX {
                            return Err(Broken::Count);
                        }
                        self.at = end;
                        count
                    }
                    Some(_) => return self.read_line(begin, bytes),
                }
            }
        };
        for left in (0..left).rev() {
            self.left = Some(left + 1);
            match bytes.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(other) => return Err(Broken::NotABulk(*other)),
            }
            let Some((length, begin)) = number(bytes, self.at + 1, Broken::Length)? else {
                return Ok(false);
            };
            let length = usize::try_from(length).ok().filter(|n| *n <= ARG_MAX);
            let end = begin + length.ok_or(Broken::Length)?;
            // The two bytes of a line's end are not checked, as in Redis.
            if bytes.len() < end + 2 {
                return Ok(false);
            }
            self.words.push(begin as u32..end as u32);
            self.at = end + 2;
        }
        Ok(true)
    }

    fn read_line(&mut self, begin: usize, bytes: &mut [u8]) -> Result<bool, Broken> {
        let read = self.at.max(begin);
        let end = bytes[read..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| read + end) else {
            self.at = bytes.len();
            return match bytes.len() - begin > LINE_MAX {
                true => Err(Broken::LongLine),
                false => Ok(false),
            };
        };
        if end - begin > LINE_MAX {
            return Err(Broken::LongLine);
        }
        let line = &mut bytes[begin..end];
        let mut text = Unquoting {
            line,
            read: 0,
            kept: 0,
        };
        let before = self.words.len();
        while let Some(word) = text.word()? {
            if self.words.len() - before == ARGS_MAX {
                return Err(Broken::Count);
            }
            let (from, to) = (begin + word.start, begin + word.end);
            self.words.push(from as u32..to as u32);
        }
        self.at = end + 1;
        Ok(true)
    }
}

/// A line whose words are put together at its beginning, without quotes and escapes: the kept text
/// is never longer than the read text.
struct Unquoting<'a> {
    line: &'a mut [u8],
    read: usize,
    kept: usize,
}

impl Unquoting<'_> {
    /// Reads a word. Blanks separate words; one may be quoted, with escapes within double quotes.
    fn word(&mut self) -> Result<Option<Range<usize>>, Broken> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.read += 1;
        }
        let begin = self.kept;
        match self.peek() {
            None => return Ok(None),
            Some(quote @ (b'"' | b'\'')) => {
                self.read += 1;
                self.quoted(quote)?;
                // A word ends with its quotes.
                if self.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return Err(Broken::Quotes);
                }
            }
            Some(_) => {
                while let Some(byte) = self.peek().filter(|byte| !byte.is_ascii_whitespace()) {
                    self.read += 1;
                    self.keep(byte);
                }
            }
        }
        Ok(Some(begin..self.kept))
    }

    fn peek(&self) -> Option<u8> {
        self.line.get(self.read).copied()
    }

    fn next(&mut self) -> Result<u8, Broken> {
        let byte = self.peek().ok_or(Broken::Quotes)?;
        self.read += 1;
        Ok(byte)
    }

    fn keep(&mut self, byte: u8) {
        self.line[self.kept] = byte;
        self.kept += 1;
    }

    /// Reads the text between quotes, and the second quote.
    fn quoted(&mut self, quote: u8) -> Result<(), Broken> {
        loop {
            let byte = self.next()?;
            if byte == quote {
                return Ok(());
            }
            if byte != b'\\' {
                self.keep(byte);
                continue;
            }
            match (quote, self.next()?) {
                (b'"', b'x') => {
                    let (high, low) = (self.digit()?, self.digit()?);
                    self.keep(high << 4 | low);
                }
                (b'"', b'n') => self.keep(b'\n'),
                (b'"', b'r') => self.keep(b'\r'),
                (b'"', b't') => self.keep(b'\t'),
                (b'"', b'a') => self.keep(7),
                (b'"', b'b') => self.keep(8),
                (b'"', other) | (_, other @ b'\'') => self.keep(other),
                (_, other) => {
                    self.keep(b'\\');
                    self.keep(other);
                }
            }
        }
    }

    fn digit(&mut self) -> Result<u8, Broken> {
        let digit = char::from(self.next()?).to_digit(16);
        digit.map(|d| d as u8).ok_or(Broken::Quotes)
    }
}

/// Reads the number of a line that begins here; returns also where the next line begins.
fn number(bytes: &[u8], begin: usize, broken: Broken) -> Result<Option<(i64, usize)>, Broken> {
    let rest = bytes.get(begin..).unwrap_or_default();
    let (negative, digits) = match rest.first() {
        Some(b'-') => (true, &rest[1..]),
        _ => (false, rest),
    };
    let mut value = 0i64;
    for (i, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                let next = value.checked_mul(10);
                let next = next.and_then(|v| v.checked_add(i64::from(byte - b'0')));
                let Some(next) = next else {
                    return Err(broken);
                };
                value = next;
            }
            b'\r' if i > 0 => {
                let end = begin + usize::from(negative) + i + 2;
                let value = if negative { -value } else { value };
                return Ok((bytes.len() >= end).then_some((value, end)));
            }
            _ => return Err(broken),
        }
        if i >= DIGITS_MAX {
            return Err(Broken::LongNumber);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
