//! Rejections of commands of ids.

use serde::{Deserialize, Serialize};

/// Reason why a command of families, workers or store time changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdsRejectionCause {
    /// The cluster is below the format level of ids.
    LevelTooLow,
    /// No such family.
    FamilyNotFound,
    /// The name belongs to a family with another spec or other limits.
    FamilyExists,
    /// There are as many families as there may be; none can be removed.
    TooManyFamilies,
    /// The family grants nothing any more.
    FamilyFrozen,
    /// The floor is further in front than is allowed without force.
    FloorTooFar,
    /// All workers are held, or used up if numbers are never used again.
    NoWorker,
    /// The claimed worker is held, or the sticky one under the same name.
    WorkerHeld,
    /// The holder has as many workers as it may have.
    TooManyWorkers,
    /// The sender does not hold the worker at its epoch, or its grant is below the floor.
    StaleWorker,
    /// The grant would begin, or already reaches, too far in front of store time.
    TooFarAhead,
    /// The layout has no later tick, or each lane of the worker was used for one set-back.
    TimeExhausted,
    /// Store time was set by another command.
    TimeWasSet,
}

/// Rejection of a command of families, workers or store time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{text}")]
pub struct IdsRejection {
    /// Why the command changed nothing.
    pub cause: IdsRejectionCause,
    /// Time after which a retry may succeed; None: a retry alone does not help.
    pub retry_after_ms: Option<u64>,
    text: String,
}

impl IdsRejection {
    /// Makes a rejection that a retry alone does not help.
    pub(crate) fn new(cause: IdsRejectionCause, text: String) -> IdsRejection {
        IdsRejection {
            cause,
            retry_after_ms: None,
            text,
        }
    }

    /// Makes the rejection by a cluster that is at a level below that of ids.
    pub fn level_too_low(level: u32) -> IdsRejection {
        let text = format!(
            "the cluster is at format level {level}, and families of ids need level 3: upgrade the stores that run an older build, then the level rises by itself"
        );
        IdsRejection::new(IdsRejectionCause::LevelTooLow, text)
    }

    /// Makes a rejection of which a retry may succeed after a time, and says so.
    pub(crate) fn for_now(cause: IdsRejectionCause, text: &str, wait_ms: u64) -> IdsRejection {
        let text = format!("{text}; retry in {} s", wait_ms.div_ceil(1_000));
        IdsRejection {
            retry_after_ms: Some(wait_ms),
            ..IdsRejection::new(cause, text)
        }
    }
}
