//! Most bytes that a command takes in a log entry.
//!
//! Invariant: the estimate is never below what bincode writes with fixed-width integers (4 for a
//! variant, 8 for a length, 16 for a 128-bit value). No integer encoding of bincode exceeds that by
//! more than one byte a field; the margin of a quarter covers it. So an entry counted to stay under
//! 64 KiB does.

use seqsvr_core::command::Command;
use seqsvr_core::family::IdsCommand;

/// A fence (2 + 8 + 4 + 4), or the section, generation and value of a high-water mark (4 + 4 + 8 +
/// 8).
const FENCE_BYTES: usize = 24;
/// Index of an enum variant.
const VARIANT_BYTES: usize = 4;
/// Length of a string or a list.
const LENGTH_BYTES: usize = 8;
/// Settings and limits of a family, with a layout of 64 fields, without its name and its ranges of
/// workers.
const FAMILY_BYTES: usize = 64 * 30 + 128;
/// Any other command of ids, without the name of a holder.
const IDS_BYTES: usize = 40;

/// Returns an upper estimate of a command's encoding, in bytes.
pub(super) fn estimate_bytes(command: &Command) -> usize {
    let body = match command {
        Command::Init { .. } => 16 + 4 + 4,
        Command::OpenSession(o) => {
            LENGTH_BYTES + o.name.len() + LENGTH_BYTES + o.address.len() + 8 + 16 + 1 + 8 + 16
        }
        Command::CloseSession {
            high_water_marks, ..
        } => 8 + LENGTH_BYTES + high_water_marks.len() * (10 + FENCE_BYTES) + 1,
        Command::ExpireSession { .. } => 8 + 8,
        Command::Assign { .. } => 2 + 8 + 8,
        Command::Open { .. } => FENCE_BYTES + 8 + 16 + 4,
        Command::Raise { .. } => FENCE_BYTES + 8 + 8 + VARIANT_BYTES + 1,
        Command::CloseSection { .. } => FENCE_BYTES + 8 + 8,
        Command::MoveSlot {
            high_water_marks, ..
        } => 2 + 8 + LENGTH_BYTES + high_water_marks.len() * FENCE_BYTES + 1 + 8,
        Command::CreateNamespace(spec) => {
            LENGTH_BYTES + spec.name.len() + VARIANT_BYTES + 12 + 16 + 4 + 12
        }
        Command::AlterNamespace { .. } => 4 + 4 + 12,
        Command::SetLevel { .. } => 4,
        // A byte before each value shows whether it is there.
        Command::ChangeNamespace { .. } => 4 + 4 + (4 + 4 + 8 + 1),
        Command::Ids(command) => VARIANT_BYTES + estimate_id_bytes(command),
    };
    let bytes = VARIANT_BYTES + body;
    bytes + bytes / 4
}

fn estimate_id_bytes(command: &IdsCommand) -> usize {
    match command {
        IdsCommand::CreateFamily { spec, .. } => {
            FAMILY_BYTES + spec.name.len() + spec.reserved.len() * 8
        }
        IdsCommand::AcquireWorker(request) => IDS_BYTES + request.holder.len(),
        _ => IDS_BYTES,
    }
}
