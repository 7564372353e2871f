//! Commands to sections, high-water marks, and the replies.

use seqsvr_core::command::{
    Command, CommandRejection, Fence, HighWaterMark, RaiseCause, Reply, SlotHighWaterMark,
};
use seqsvr_core::ids::{Epoch, Generation, NamespaceId, Nonce, SectionId, SectionKey};

use super::{DecodeError, slot_from, u128_from};
use crate::v1;

impl From<Fence> for v1::Fence {
    fn from(f: Fence) -> v1::Fence {
        v1::Fence {
            slot: u32::from(f.slot.0),
            epoch: f.epoch.0,
            namespace: f.section.namespace.0,
            section: f.section.section.0,
        }
    }
}

impl TryFrom<&v1::Fence> for Fence {
    type Error = DecodeError;

    fn try_from(f: &v1::Fence) -> Result<Fence, DecodeError> {
        Ok(Fence {
            slot: slot_from(f.slot)?,
            epoch: Epoch(f.epoch),
            section: SectionKey {
                namespace: NamespaceId(f.namespace),
                section: SectionId(f.section),
            },
        })
    }
}

/// Returns a section command as the state takes it. `last_generation` gives the generation of an
/// `Open` that does not name the one it expects.
pub fn command_from(
    wire: &v1::SectionCommand,
    last_generation: impl FnOnce(SectionKey) -> Generation,
) -> Result<Command, DecodeError> {
    let fence = Fence::try_from(
        wire.fence
            .as_ref()
            .ok_or(DecodeError("section command without a fence"))?,
    )?;
    Ok(
        match wire
            .command
            .as_ref()
            .ok_or(DecodeError("empty section command"))?
        {
            v1::section_command::Command::Open(o) => Command::Open {
                fence,
                expected: o
                    .expected
                    .map_or_else(|| last_generation(fence.section), Generation),
                nonce: Nonce(u128_from(&o.nonce, "nonce")?),
                step: o.step,
            },
            v1::section_command::Command::Raise(r) => Command::Raise {
                fence,
                generation: Generation(r.generation),
                to: r.to,
                cause: if r.raise_to {
                    RaiseCause::RaiseTo { force: r.force }
                } else {
                    RaiseCause::Refill
                },
            },
            v1::section_command::Command::Close(c) => Command::CloseSection {
                fence,
                generation: Generation(c.generation),
                value: c.high_water_mark,
            },
        },
    )
}

/// Returns a high-water mark of a closing session.
pub fn high_water_mark_from(
    wire: &v1::SectionHighWaterMark,
) -> Result<SlotHighWaterMark, DecodeError> {
    let fence = Fence::try_from(
        wire.fence
            .as_ref()
            .ok_or(DecodeError("high-water mark without a fence"))?,
    )?;
    let last = HighWaterMark {
        section: fence.section,
        generation: Generation(wire.generation),
        value: wire.value,
    };
    Ok(SlotHighWaterMark {
        slot: fence.slot,
        epoch: fence.epoch,
        mark: last,
    })
}

/// Returns the reply to a section command.
pub fn section_reply_from(reply: &Reply) -> v1::SectionReply {
    use v1::section_reply::Reply as Wire;
    let wire = match reply {
        Reply::Opened {
            generation,
            base,
            max_seq,
        } => Wire::Opened(v1::Opened {
            generation: generation.0,
            base: *base,
            max_seq: *max_seq,
        }),
        Reply::Raised {
            generation,
            max_seq,
        } => Wire::Raised(v1::Raised {
            generation: generation.0,
            max_seq: *max_seq,
        }),
        Reply::Closed {
            generation,
            max_seq,
        } => Wire::Closed(v1::Raised {
            generation: generation.0,
            max_seq: *max_seq,
        }),
        Reply::Rejected(refusal) => Wire::Rejected(rejection_from(refusal)),
        other => Wire::Rejected(v1::Rejected {
            kind: v1::rejected::Kind::Invalid.into(),
            message: format!("unexpected reply {other:?}"),
            ..v1::Rejected::default()
        }),
    };
    v1::SectionReply { reply: Some(wire) }
}

fn rejection_from(refusal: &CommandRejection) -> v1::Rejected {
    use v1::rejected::Kind;
    let (kind, expected_value, generation) = match refusal {
        CommandRejection::NotOwner { epoch, .. } => (Kind::NotOwner, epoch.0, 0),
        CommandRejection::StaleGeneration {
            generation, last, ..
        } => (Kind::StaleGeneration, last.0, generation.0),
        CommandRejection::JumpTooLarge { bound, .. } => (Kind::JumpTooLarge, *bound, 0),
        CommandRejection::SequenceExhausted(_) => (Kind::Exhausted, 0, 0),
        CommandRejection::NamespaceNotFound(_) => (Kind::NamespaceNotFound, 0, 0),
        _ => (Kind::Invalid, 0, 0),
    };
    v1::Rejected {
        kind: kind.into(),
        message: refusal.to_string(),
        expected_value,
        generation,
    }
}
