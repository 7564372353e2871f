//! Commands of workers.

use seqsvr_core::family::{AcquireWorker, IdsCommand, validate_holder};
use seqsvr_core::ids::{FamilyId, Nonce, WorkerEpoch, WorkerId, WorkerKey};
use seqsvr_core::namespace::NAME_MAX;

use super::{DecodeError, u128_from};
use crate::v1::WorkerCommand;
use crate::v1::worker_command::Command;

/// Returns a worker command as the state takes it. `family_id` gives the id of the family that it
/// names. A name that is too long for a family is rejected before: an error would repeat it.
pub fn worker_command_from<E: From<DecodeError>>(
    wire: &WorkerCommand,
    family_id: impl FnOnce(&str) -> Result<FamilyId, E>,
) -> Result<IdsCommand, E> {
    let command = wire.command.as_ref();
    let command = command.ok_or(DecodeError("empty worker command"))?;
    let family_id = |name: &str| match name.len() <= NAME_MAX {
        true => family_id(name),
        false => Err(DecodeError("a family's name has at most 64 characters").into()),
    };
    let key = |family, worker| WorkerKey {
        family,
        worker: WorkerId(worker),
    };
    Ok(match command {
        Command::Acquire(acquire) => {
            validate_holder(&acquire.holder).map_err(DecodeError)?;
            IdsCommand::AcquireWorker(AcquireWorker {
                family: family_id(&acquire.family)?,
                holder: acquire.holder.clone(),
                nonce: nonce_from(&acquire.nonce)?,
                worker: acquire.worker.map(WorkerId),
                window_ms: acquire.window_ms,
            })
        }
        Command::Renew(renewal) => IdsCommand::RenewWorker {
            worker: key(family_id(&renewal.family)?, renewal.worker),
            epoch: WorkerEpoch(renewal.epoch),
            window_ms: renewal.window_ms,
            nonce: nonce_from(&renewal.nonce)?,
        },
        Command::Release(release) => IdsCommand::ReleaseWorker {
            worker: key(family_id(&release.family)?, release.worker),
            epoch: WorkerEpoch(release.epoch),
            used: release.used,
            nonce: nonce_from(&release.nonce)?,
        },
    })
}

fn nonce_from(bytes: &[u8]) -> Result<Nonce, DecodeError> {
    u128_from(bytes, "the nonce of an acquisition has 16 bytes").map(Nonce)
}
