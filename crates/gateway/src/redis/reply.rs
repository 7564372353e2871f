//! Replies in the form of Redis, of protocol 2 or 3.

/// The protocol version of a connection's replies. A connection begins with RESP2 and may request
/// RESP3 (`HELLO 3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespVersion {
    #[default]
    Resp2 = 2,
    Resp3 = 3,
}

/// Encoded replies that are to be sent.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer {
    pub(super) bytes: Vec<u8>,
    pub(super) version: RespVersion,
}

impl ReplyBuffer {
    /// Writes a simple string, for example `+OK`. The text has no line end.
    pub(super) fn write_simple(&mut self, text: &str) {
        self.write_line(b'+', text.as_bytes());
    }

    /// Writes an error: a code of upper-case letters, and the text behind it.
    pub(super) fn write_error(&mut self, text: &str) {
        self.bytes.push(b'-');
        // An error is one line, even if the text that it quotes is not.
        let one_line = text.bytes().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => other,
        });
        self.bytes.extend(one_line);
        self.write_line_end();
    }

    pub(super) fn write_integer(&mut self, n: u64) {
        self.bytes.push(b':');
        self.write_digits(n);
        self.write_line_end();
    }

    pub(super) fn write_bulk(&mut self, value: &[u8]) {
        self.bytes.push(b'$');
        self.write_digits(value.len() as u64);
        self.write_line_end();
        self.bytes.extend(value);
        self.write_line_end();
    }

    /// Writes a number that may be negative.
    pub(super) fn write_signed(&mut self, n: i64) {
        if n < 0 {
            self.bytes.extend(b":-");
            self.write_digits(n.unsigned_abs());
            self.write_line_end();
        } else {
            self.write_integer(n as u64);
        }
    }

    /// Writes a text for people: in RESP3 a verbatim string.
    pub(super) fn write_text(&mut self, text: &str) {
        match self.version {
            RespVersion::Resp2 => self.write_bulk(text.as_bytes()),
            RespVersion::Resp3 => {
                self.bytes.push(b'=');
                self.write_digits(text.len() as u64 + 4);
                self.bytes.extend(b"\r\ntxt:");
                self.bytes.extend(text.as_bytes());
                self.write_line_end();
            }
        }
    }

    /// Writes a number as a text, as Redis does.
    pub(super) fn write_bulk_number(&mut self, n: u64) {
        let mut text = itoa::Buffer::new();
        self.write_bulk(text.format(n).as_bytes());
    }

    pub(super) fn write_nil(&mut self) {
        self.bytes.extend(match self.version {
            RespVersion::Resp2 => &b"$-1\r\n"[..],
            RespVersion::Resp3 => b"_\r\n",
        });
    }

    /// Begins an array of the next n replies.
    pub(super) fn begin_array(&mut self, n: usize) {
        self.write_head(b'*', n);
    }

    /// Begins a map of the next n pairs of replies.
    pub(super) fn begin_map(&mut self, n: usize) {
        match self.version {
            RespVersion::Resp2 => self.write_head(b'*', 2 * n),
            RespVersion::Resp3 => self.write_head(b'%', n),
        }
    }

    fn write_head(&mut self, kind: u8, n: usize) {
        self.bytes.push(kind);
        self.write_digits(n as u64);
        self.write_line_end();
    }

    fn write_line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend(text);
        self.write_line_end();
    }

    fn write_digits(&mut self, n: u64) {
        let mut text = itoa::Buffer::new();
        self.bytes.extend(text.format(n).as_bytes());
    }

    fn write_line_end(&mut self) {
        self.bytes.extend(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_replies(version: RespVersion) -> String {
        let mut replies = ReplyBuffer {
            version,
            ..ReplyBuffer::default()
        };
        replies.write_simple("OK");
        replies.write_error("ERR key \"a\r\nb\" is odd");
        replies.write_integer(u64::MAX >> 1);
        replies.write_bulk(b"a\r\nb");
        replies.write_bulk_number(42);
        replies.write_nil();
        replies.begin_array(2);
        replies.begin_map(1);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn reply_buffer_writes_both_protocol_versions() {
        let common = "+OK\r\n-ERR key \"a  b\" is odd\r\n:9223372036854775807\r\n$4\r\na\r\nb\r\n$2\r\n42\r\n";
        assert_eq!(
            all_replies(RespVersion::Resp2),
            format!("{common}$-1\r\n*2\r\n*2\r\n")
        );
        assert_eq!(
            all_replies(RespVersion::Resp3),
            format!("{common}_\r\n*2\r\n%1\r\n")
        );
    }
}
