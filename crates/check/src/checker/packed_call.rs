//! An answered call in 48 bytes, so that tens of millions fit into memory.
//!
//! Invariant: a packed call holds everything that the rules read and everything needed to print the
//! call again, except the name and stride of its sequence, which are kept once for each sequence.

use std::num::NonZeroU64;

use crate::history::{CallAnswer, CallOutcome, RecordedCall, SequenceName};

/// Bits of `tag` below the number of the sequence.
const SEQUENCE_SHIFT: u32 = 4;
const HAS_EPOCH: u32 = 1 << 3;

/// Most sequences of one check.
pub(super) const SEQUENCES_MAX: u32 = 1 << (u32::BITS - SEQUENCE_SHIFT);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum AnswerKind {
    Next,
    Exact,
    Never,
    AtMost,
    RaiseTo,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PackedCall {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// `next`: first number; `raise-to`: requested number; `current`: the number; `never`: 0.
    pub(super) first: u64,
    /// `next`: last number; `raise-to`: number answered; `current`: the number; `never`: 0.
    pub(super) last: u64,
    epoch: u64,
    pub(super) line: u32,
    tag: u32,
}

impl PackedCall {
    pub(super) fn new(
        line: u32,
        sequence_id: u32,
        (begin, end): (u64, u64),
        epoch: Option<u64>,
        answer: &CallAnswer,
    ) -> Self {
        let (kind, first, last) = match *answer {
            CallAnswer::Next { first, last, .. } => (AnswerKind::Next, first, last),
            CallAnswer::Exact(n) => (AnswerKind::Exact, n, n),
            CallAnswer::Never => (AnswerKind::Never, 0, 0),
            CallAnswer::AtMost(n) => (AnswerKind::AtMost, n, n),
            CallAnswer::RaiseTo { requested, to } => (AnswerKind::RaiseTo, requested, to),
        };
        let has_epoch = if epoch.is_some() { HAS_EPOCH } else { 0 };
        Self {
            begin,
            end,
            first,
            last,
            epoch: epoch.unwrap_or(0),
            line,
            tag: sequence_id << SEQUENCE_SHIFT | has_epoch | kind as u32,
        }
    }

    pub(super) fn sequence_id(&self) -> u32 {
        self.tag >> SEQUENCE_SHIFT
    }

    pub(super) fn answer_kind(&self) -> AnswerKind {
        match self.tag & (HAS_EPOCH - 1) {
            0 => AnswerKind::Next,
            1 => AnswerKind::Exact,
            2 => AnswerKind::Never,
            3 => AnswerKind::AtMost,
            _ => AnswerKind::RaiseTo,
        }
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        (self.tag & HAS_EPOCH != 0).then_some(self.epoch)
    }

    pub(super) fn to_call(self, sequence_name: &str, stride: NonZeroU64) -> RecordedCall {
        RecordedCall {
            sequence: SequenceName::from_token(sequence_name),
            begin: self.begin,
            outcome: CallOutcome::Ok {
                end: self.end,
                epoch: self.epoch(),
                answer: match self.answer_kind() {
                    AnswerKind::Next => CallAnswer::Next {
                        first: self.first,
                        last: self.last,
                        stride,
                    },
                    AnswerKind::Exact => CallAnswer::Exact(self.last),
                    AnswerKind::Never => CallAnswer::Never,
                    AnswerKind::AtMost => CallAnswer::AtMost(self.last),
                    AnswerKind::RaiseTo => CallAnswer::RaiseTo {
                        requested: self.first,
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
    fn packed_call_takes_48_bytes_and_restores_its_call() {
        assert_eq!(size_of::<PackedCall>(), 48);
        let stride = NonZeroU64::new(3).unwrap();
        let (first, last) = (4, 10);
        for answer in [
            CallAnswer::Next {
                first,
                last,
                stride,
            },
            CallAnswer::Exact(5),
            CallAnswer::Never,
            CallAnswer::AtMost(u64::MAX),
            CallAnswer::RaiseTo {
                requested: 7,
                to: 8,
            },
        ] {
            for epoch in [None, Some(0), Some(u64::MAX)] {
                let sequence_id = SEQUENCES_MAX - 1;
                let packed = PackedCall::new(9, sequence_id, (1, 2), epoch, &answer);
                assert_eq!(packed.sequence_id(), sequence_id);
                let outcome = CallOutcome::Ok {
                    end: 2,
                    epoch,
                    answer,
                };
                assert_eq!(packed.to_call("a/b", stride).outcome, outcome);
            }
        }
    }
}
