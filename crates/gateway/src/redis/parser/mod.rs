//! Parser of requests as Redis clients write them: arrays of bulk strings, or a line of words.
//!
//! It is not a library, for speed: a library's parser takes 97 to 360 ns a command, this one 11 to
//! 33 (`INCR` of a key of 17 bytes, pipelines of 1 to 100). In a pipeline of 100 a command may cost
//! about 400 ns in all.
//!
//! Invariants: the parser reads a byte once, however slowly a request arrives. It checks the size
//! of a request before it keeps it ([`WORDS_MAX`], [`WORD_BYTES_MAX`], [`LINE_BYTES_MAX`],
//! [`REQUEST_BYTES_MAX`]).

mod inline_unquoter;

use std::fmt;
use std::ops::Range;

use inline_unquoter::InlineUnquoter;

/// Maximum words of a request: an MGET of as many keys as a batch may have items.
const WORDS_MAX: usize = 10_001;
/// Maximum bytes of a word. Keys are shorter: the answer to a key that is too long names the limit
/// of keys, and is no protocol error.
const WORD_BYTES_MAX: usize = 16 << 10;
/// Maximum bytes of the line of an inline request, as in Redis.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum bytes of a request: an MGET of as many keys as allowed, each of maximum length.
pub(super) const REQUEST_BYTES_MAX: usize = 2 << 20;
/// Capacity for words and for requests that the parser never gives back.
const RETAINED_CAPACITY: usize = 256;
/// Maximum characters of a count or length, with its sign.
const NUMBER_DIGITS_MAX: usize = 20;

/// Error after which a connection cannot continue: its bytes are not requests. The texts are those
/// of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProtocolError {
    InvalidCount,
    InvalidLength,
    ExpectedBulk(u8),
    NumberTooLong,
    LineTooLong,
    RequestTooLong,
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProtocolError::InvalidCount => {
                write!(
                    f,
                    "invalid multibulk length; there may be {WORDS_MAX} words"
                )
            }
            ProtocolError::InvalidLength => {
                write!(
                    f,
                    "invalid bulk length; a word may have {WORD_BYTES_MAX} bytes"
                )
            }
            ProtocolError::ExpectedBulk(byte) => {
                write!(f, "expected '$', got '{}'", byte.escape_ascii())
            }
            ProtocolError::NumberTooLong => f.write_str("too big count string"),
            ProtocolError::LineTooLong => f.write_str("too big inline request"),
            ProtocolError::RequestTooLong => {
                write!(f, "a request may have {REQUEST_BYTES_MAX} bytes")
            }
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
        }
    }
}

/// Requests that were parsed and are not answered yet, and the parsed part of the next one.
#[derive(Debug, Default)]
pub(super) struct RequestParser {
    /// Number of bytes parsed.
    parsed_bytes: usize,
    /// Words of the current request that have not arrived; None: its first line was not parsed yet.
    words_remaining: Option<usize>,
    /// Words of all requests.
    words: Vec<Range<u32>>,
    /// Ends of the words and of the bytes of each complete request.
    ends: Vec<RequestEnd>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RequestEnd {
    words: usize,
    bytes: usize,
}

impl RequestParser {
    /// Continues to parse bytes that begin with the first of these requests, until there are
    /// `requests_max` complete ones. It removes the quotes of a line's words in place.
    ///
    /// # Errors
    /// [`ProtocolError`], after which nothing more can be parsed; the complete requests before it
    /// stay.
    pub(super) fn parse(
        &mut self,
        bytes: &mut [u8],
        requests_max: usize,
    ) -> Result<(), ProtocolError> {
        while self.ends.len() < requests_max {
            let begin = self.complete_bytes();
            if !self.parse_request(bytes)? {
                return match self.parsed_bytes - begin > REQUEST_BYTES_MAX {
                    true => Err(ProtocolError::RequestTooLong),
                    false => Ok(()),
                };
            }
            self.words_remaining = None;
            self.ends.push(RequestEnd {
                words: self.words.len(),
                bytes: self.parsed_bytes,
            });
        }
        Ok(())
    }

    /// Returns the number of complete requests.
    pub(super) fn request_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of bytes of the complete requests.
    pub(super) fn complete_bytes(&self) -> usize {
        self.ends.last().map_or(0, |end| end.bytes)
    }

    /// Returns the words of the complete request `index`, from the same bytes.
    pub(super) fn request_words<'a>(
        &self,
        index: usize,
        bytes: &'a [u8],
    ) -> impl ExactSizeIterator<Item = &'a [u8]> {
        let before = index
            .checked_sub(1)
            .map(|i| self.ends[i])
            .unwrap_or_default();
        let words = &self.words[before.words..self.ends[index].words];
        words
            .iter()
            .map(move |word| &bytes[word.start as usize..word.end as usize])
    }

    /// Discards the complete requests, whose bytes the caller has removed.
    pub(super) fn discard_complete(&mut self) {
        let Some(end) = self.ends.last().copied() else {
            return;
        };
        self.ends.clear();
        self.words.drain(..end.words);
        // The memory of one long request is given back.
        self.ends.shrink_to(RETAINED_CAPACITY);
        self.words.shrink_to(RETAINED_CAPACITY);
        for word in &mut self.words {
            *word = word.start - end.bytes as u32..word.end - end.bytes as u32;
        }
        self.parsed_bytes -= end.bytes;
    }

    /// Parses the current request; returns whether it is complete.
    fn parse_request(&mut self, bytes: &mut [u8]) -> Result<bool, ProtocolError> {
        let left = match self.words_remaining {
            Some(left) => left,
            None => {
                // Start of the current request; a part of a line may have been parsed.
                let begin = self.complete_bytes();
                match bytes.get(begin) {
                    None => return Ok(false),
                    Some(b'*') => {
                        let Some((count, end)) =
                            parse_number(bytes, begin + 1, ProtocolError::InvalidCount)?
                        else {
                            return Ok(false);
                        };
                        // Redis ignores an absent and an empty request.
                        let count = usize::try_from(count.max(0))
                            .map_err(|_| ProtocolError::InvalidCount)?;
                        if count > WORDS_MAX {
                            return Err(ProtocolError::InvalidCount);
                        }
                        self.parsed_bytes = end;
                        count
                    }
                    Some(_) => return self.parse_inline(begin, bytes),
                }
            }
        };
        for left in (0..left).rev() {
            self.words_remaining = Some(left + 1);
            match bytes.get(self.parsed_bytes) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
            }
            let Some((length, begin)) =
                parse_number(bytes, self.parsed_bytes + 1, ProtocolError::InvalidLength)?
            else {
                return Ok(false);
            };
            let length = usize::try_from(length)
                .ok()
                .filter(|n| *n <= WORD_BYTES_MAX);
            let end = begin + length.ok_or(ProtocolError::InvalidLength)?;
            // As in Redis, the two bytes of the line end are not checked.
            if bytes.len() < end + 2 {
                return Ok(false);
            }
            self.words.push(begin as u32..end as u32);
            self.parsed_bytes = end + 2;
        }
        Ok(true)
    }

    /// Parses an inline request; returns whether it is complete.
    fn parse_inline(&mut self, begin: usize, bytes: &mut [u8]) -> Result<bool, ProtocolError> {
        let read = self.parsed_bytes.max(begin);
        let end = bytes[read..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end.map(|end| read + end) else {
            self.parsed_bytes = bytes.len();
            return match bytes.len() - begin > LINE_BYTES_MAX {
                true => Err(ProtocolError::LineTooLong),
                false => Ok(false),
            };
        };
        if end - begin > LINE_BYTES_MAX {
            return Err(ProtocolError::LineTooLong);
        }
        let mut unquoter = InlineUnquoter::new(&mut bytes[begin..end]);
        let before = self.words.len();
        while let Some(word) = unquoter.next_word()? {
            if self.words.len() - before == WORDS_MAX {
                return Err(ProtocolError::InvalidCount);
            }
            let (from, to) = (begin + word.start, begin + word.end);
            self.words.push(from as u32..to as u32);
        }
        self.parsed_bytes = end + 1;
        Ok(true)
    }
}

/// Parses the number of the line that begins at `begin`; returns also where the next line begins.
fn parse_number(
    bytes: &[u8],
    begin: usize,
    error: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
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
                    return Err(error);
                };
                value = next;
            }
            b'\r' if i > 0 => {
                let end = begin + usize::from(negative) + i + 2;
                let value = if negative { -value } else { value };
                return Ok((bytes.len() >= end).then_some((value, end)));
            }
            _ => return Err(error),
        }
        if i >= NUMBER_DIGITS_MAX {
            return Err(ProtocolError::NumberTooLong);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
