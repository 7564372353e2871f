//! An answered call in 48 bytes, so that tens of millions fit into memory.
//!
//! Invariant: a row holds everything that the rules read and everything needed to print the call
//! again, except the name and stride of its sequence, which are kept once for each sequence.

use std::num::NonZeroU64;

use crate::{Answer, Call, Outcome, Sequence};

/// Bits of `tag` below the number of the sequence.
const SEQUENCE_SHIFT: u32 = 4;
const HAS_EPOCH: u32 = 1 << 3;

/// Most sequences of one check.
pub(crate) const SEQUENCES_MAX: u32 = 1 << (u32::BITS - SEQUENCE_SHIFT);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Next,
    Exact,
    Never,
    AtMost,
    RaiseTo,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// `next`: first number; `raise-to`: requested number; `current`: the number; `never`: 0.
    pub(crate) first: u64,
    /// `next`: last number; `raise-to`: number answered; `current`: the number; `never`: 0.
    pub(crate) last: u64,
    epoch: u64,
    pub(crate) line: u32,
    tag: u32,
}

impl Row {
    pub(crate) fn new(
        line: u32,
        sequence: u32,
        (begin, end): (u64, u64),
        epoch: Option<u64>,
        answer: &Answer,
    ) -> Self {
        let (code, first, last) = match *answer {
            Answer::Next { first, last, .. } => (Code::Next, first, last),
            Answer::Exact(n) => (Code::Exact, n, n),
            Answer::Never => (Code::Never, 0, 0),
            Answer::AtMost(n) => (Code::AtMost, n, n),
            Answer::RaiseTo { asked, to } => (Code::RaiseTo, asked, to),
        };
        let has_epoch = if epoch.is_some() { HAS_EPOCH } else { 0 };
        Self {
            begin,
            end,
            first,
            last,
            epoch: epoch.unwrap_or(0),
            line,
            tag: sequence << SEQUENCE_SHIFT | has_epoch | code as u32,
        }
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.tag >> SEQUENCE_SHIFT
    }

    pub(crate) fn code(&self) -> Code {
        match self.tag & (HAS_EPOCH - 1) {
            0 => Code::Next,
            1 => Code::Exact,
            2 => Code::Never,
            3 => Code::AtMost,
            _ => Code::RaiseTo,
        }
    }

    pub(crate) fn epoch(&self) -> Option<u64> {
        (self.tag & HAS_EPOCH != 0).then_some(self.epoch)
    }

    pub(crate) fn to_call(self, sequence: &str, stride: NonZeroU64) -> Call {
        Call {
            sequence: Sequence::from_token(sequence),
            begin: self.begin,
            outcome: Outcome::Ok {
                end: self.end,
                epoch: self.epoch(),
                answer: match self.code() {
                    Code::Next => Answer::Next {
                        first: self.first,
                        last: self.last,
                        stride,
                    },
                    Code::Exact => Answer::Exact(self.last),
                    Code::Never => Answer::Never,
                    Code::AtMost => Answer::AtMost(self.last),
                    Code::RaiseTo => Answer::RaiseTo {
                        asked: self.first,
                        to: self.last,
                    },
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_48_bytes_and_gives_its_call_back() {
        assert_eq!(size_of::<Row>(), 48);
        let stride = NonZeroU64::new(3).unwrap();
        let (first, last) = (4, 10);
        for answer in [
            Answer::Next {
                first,
                last,
                stride,
            },
            Answer::Exact(5),
            Answer::Never,
            Answer::AtMost(u64::MAX),
            Answer::RaiseTo { asked: 7, to: 8 },
        ] {
            for epoch in [None, Some(0), Some(u64::MAX)] {
                let sequence = SEQUENCES_MAX - 1;
                let row = Row::new(9, sequence, (1, 2), epoch, &answer);
                assert_eq!(row.sequence(), sequence);
                let outcome = Outcome::Ok {
                    end: 2,
                    epoch,
                    answer,
                };
                assert_eq!(row.to_call("a/b", stride).outcome, outcome);
            }
        }
    }
}
