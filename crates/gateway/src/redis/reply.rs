//! Answers in the form of Redis, of protocol 2 or 3.

/// The protocol version of a connection's answers. Every connection begins with the second and may
/// request the third (`HELLO 3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Two,
    Three,
}

/// Answers to be sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    pub(super) bytes: Vec<u8>,
    pub(super) version: Version,
}

impl Replies {
    /// Writes `+OK`, for example: one line of text without an end of its own.
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error: a code of upper-case letters and what to do.
    pub(super) fn error(&mut self, text: &str) {
        self.bytes.push(b'-');
        // An error is one line, even if the text that it quotes is not.
        let one_line = text.bytes().map(|byte| match byte {
            b'\r' | b'\n' => b' ',
            other => other,
        });
        self.bytes.extend(one_line);
        self.end();
    }

    pub(super) fn integer(&mut self, n: u64) {
        self.bytes.push(b':');
        self.digits(n);
        self.end();
    }

    pub(super) fn bulk(&mut self, value: &[u8]) {
        self.bytes.push(b'$');
        self.digits(value.len() as u64);
        self.end();
        self.bytes.extend(value);
        self.end();
    }

    /// Writes a number as a text, as Redis does.
    pub(super) fn bulk_number(&mut self, n: u64) {
        let mut text = itoa::Buffer::new();
        self.bulk(text.format(n).as_bytes());
    }

    pub(super) fn nil(&mut self) {
        self.bytes.extend(match self.version {
            Version::Two => &b"$-1\r\n"[..],
            Version::Three => b"_\r\n",
        });
    }

    /// Begins an array of the next n answers.
    pub(super) fn array(&mut self, n: usize) {
        self.head(b'*', n);
    }

    /// Begins a map of the next n pairs of answers.
    pub(super) fn map(&mut self, n: usize) {
        match self.version {
            Version::Two => self.head(b'*', 2 * n),
            Version::Three => self.head(b'%', n),
        }
    }

    fn head(&mut self, kind: u8, n: usize) {
        self.bytes.push(kind);
        self.digits(n as u64);
        self.end();
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend(text);
        self.end();
    }

    fn digits(&mut self, n: u64) {
        let mut text = itoa::Buffer::new();
        self.bytes.extend(text.format(n).as_bytes());
    }

    fn end(&mut self) {
        self.bytes.extend(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(version: Version) -> String {
        let mut replies = Replies {
            version,
            ..Replies::default()
        };
        replies.simple("OK");
        replies.error("ERR key \"a\r\nb\" is odd");
        replies.integer(u64::MAX >> 1);
        replies.bulk(b"a\r\nb");
        replies.bulk_number(42);
        replies.nil();
        replies.array(2);
        replies.map(1);
        String::from_utf8(replies.bytes).unwrap()
    }

    #[test]
    fn answers_are_those_of_the_protocol() {
        let same = "+OK\r\n-ERR key \"a  b\" is odd\r\n:9223372036854775807\r\n$4\r\na\r\nb\r\n$2\r\n42\r\n";
        assert_eq!(of(Version::Two), format!("{same}$-1\r\n*2\r\n*2\r\n"));
        assert_eq!(of(Version::Three), format!("{same}_\r\n*2\r\n%1\r\n"));
    }
}
