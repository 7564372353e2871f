//! Boundaries of the messages of a stream, found in its bytes as they arrive.
//!
//! The methods of reflection come from a library. They do not report what they took of a stream, so
//! the server finds in the bytes themselves whether a message has begun and has not ended.

/// Bytes of a message's prefix: a flag, and the length in four bytes.
const PREFIX_BYTES: usize = 5;

/// Reader of the prefixes of one stream.
#[derive(Default)]
pub(crate) struct MessageFraming {
    /// Bytes read of the message that has not ended, with its prefix.
    begun: usize,
    /// Length of that message after its prefix.
    length: u32,
}

impl MessageFraming {
    /// Reads the next bytes. Returns whether a message ended in them.
    pub(crate) fn read(&mut self, mut data: &[u8]) -> bool {
        let mut has_ended = false;
        while let Some((&byte, rest)) = data.split_first() {
            if self.begun < PREFIX_BYTES {
                // The flag, which comes first, is shifted out.
                self.length = self.length << 8 | u32::from(byte);
                self.begun += 1;
                data = rest;
            } else {
                let here = self.missing_bytes().min(data.len());
                self.begun += here;
                data = &data[here..];
            }
            if self.begun >= PREFIX_BYTES && self.missing_bytes() == 0 {
                *self = MessageFraming::default();
                has_ended = true;
            }
        }
        has_ended
    }

    /// Returns the bytes read of a message that has not ended; 0: none has begun.
    pub(crate) fn begun_bytes(&self) -> usize {
        self.begun
    }

    /// Returns the bytes still to come of a message whose prefix was read.
    fn missing_bytes(&self) -> usize {
        (PREFIX_BYTES + self.length as usize).saturating_sub(self.begun)
    }
}
