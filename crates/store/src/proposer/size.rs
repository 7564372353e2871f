//! Most bytes that a command takes in a log entry.
//!
//! Invariant: the estimate is never below what bincode writes with fixed-width integers (4 for a
//! variant, 8 for a length, 16 for a 128-bit value). No integer encoding of bincode exceeds that by
//! more than one byte a field; the margin of a quarter covers it. So an entry counted to stay under
//! 64 KiB does.

use seqsvr_core::command::Command;

/// A fence (2 + 8 + 4 + 4), or the section, generation and value of a final (4 + 4 + 8 + 8).
const FENCE: usize = 24;
const VARIANT: usize = 4;
const LENGTH: usize = 8;

/// Returns an upper estimate of a command's encoding, in bytes.
pub(super) fn of(command: &Command) -> usize {
    let body = match command {
        Command::Init { .. } => 16 + 4 + 4,
        Command::OpenSession(o) => {
            LENGTH + o.name.len() + LENGTH + o.address.len() + 8 + 16 + 1 + 8 + 16
        }
        Command::CloseSession { finals, .. } => 8 + LENGTH + finals.len() * (10 + FENCE) + 1,
        Command::ExpireSession { .. } => 8 + 8,
        Command::Assign { .. } => 2 + 8 + 8,
        Command::Open { .. } => FENCE + 8 + 16 + 4,
        Command::Raise { .. } => FENCE + 8 + 8 + VARIANT + 1,
        Command::CloseSection { .. } => FENCE + 8 + 8,
        Command::MoveSlot { finals, .. } => 2 + 8 + LENGTH + finals.len() * FENCE + 1 + 8,
        Command::CreateNamespace(spec) => LENGTH + spec.name.len() + VARIANT + 12 + 16 + 4 + 12,
        Command::AlterNamespace { .. } => 4 + 4 + 12,
        Command::SetLevel { .. } => 4,
        // A byte before each value shows whether it is there.
        Command::ChangeNamespace { .. } => 4 + 4 + (4 + 4 + 8 + 1),
    };
    let bytes = VARIANT + body;
    bytes + bytes / 4
}
