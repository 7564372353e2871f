//! Reasons why commands of ids changed nothing.

use serde::{Deserialize, Serialize};

use super::FAMILIES_MAX;
use crate::ids::{FamilyId, WorkerEpoch, WorkerId};
use crate::layout::format_utc_ms;

/// Reason why a command of families, workers or store time changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum IdsRejection {
    /// The cluster is below the format level of ids.
    #[error(
        "the cluster is at format level {0}, and families of ids need level 3: upgrade the stores that run an older build, then the level rises by itself"
    )]
    LevelTooLow(u32),
    /// No such family.
    #[error("no family has the id {0}")]
    FamilyNotFound(FamilyId),
    /// The name belongs to a family with another spec or other limits.
    #[error(
        "family {family:?} already exists with other settings ({settings}): choose another name, or repeat its settings"
    )]
    FamilyExists {
        /// Name of the family.
        family: String,
        /// Names of the settings that differ.
        settings: String,
    },
    /// There are as many families as there may be; none can be removed.
    #[error(
        "a cluster has at most {max} families, and none can be removed: use one that exists",
        max = FAMILIES_MAX
    )]
    TooManyFamilies,
    /// The family grants nothing any more.
    #[error("family {0:?} is frozen: use another one")]
    FamilyFrozen(String),
    /// The floor is further in front than is allowed without force.
    #[error(
        "the floor at {floor} is more than ahead ({ahead_ms} ms) in front of store time, {now}: raise it less, or pass --force if it is true",
        floor = format_utc_ms(*floor_ms), now = format_utc_ms(*now_ms)
    )]
    FloorTooFar {
        /// Time of the floor.
        floor_ms: u64,
        /// Store time.
        now_ms: u64,
        /// The family's bound.
        ahead_ms: u32,
    },
    /// All workers are held, or used up if numbers are never used again.
    #[error("{}", no_worker_text(family, *workers, *wait_ms))]
    NoWorker {
        /// Name of the family.
        family: String,
        /// Workers that it can grant.
        workers: u64,
        /// Least time until one may become free; None: never.
        wait_ms: Option<u64>,
    },
    /// The claimed worker is held, or the sticky one under the same name.
    #[error(
        "worker {worker} is held by {holder:?} until {until}: is there another process of that name? retry in {wait} s",
        until = format_utc_ms(*until_ms), wait = wait_ms.div_ceil(1_000)
    )]
    WorkerHeld {
        /// The worker.
        worker: WorkerId,
        /// Its holder.
        holder: String,
        /// End of its grant.
        until_ms: u64,
        /// Time until it may be acquired, unless it is renewed.
        wait_ms: u64,
    },
    /// The holder has as many workers as it may have.
    #[error(
        "{holder:?} holds {max} workers already, and the first grant ends in {} s: release one, or raise workers-per-holder",
        wait_ms.div_ceil(1_000)
    )]
    TooManyWorkers {
        /// The holder.
        holder: String,
        /// The family's limit.
        max: u32,
        /// Time until the first of their grants ends, unless it is renewed.
        wait_ms: u64,
    },
    /// The sender does not hold the worker at its epoch, or its grant is below the floor.
    #[error(
        "the grant of worker {worker} at epoch {epoch} is not extended: acquire another worker; what is left of the grant is still its holder's alone"
    )]
    StaleWorker {
        /// The worker.
        worker: WorkerId,
        /// Epoch of the command.
        epoch: WorkerEpoch,
    },
    /// The grant would begin, or already reaches, too far in front of store time.
    #[error("{}", too_far_text(*at_ms, *now_ms, *wait_ms))]
    TooFarAhead {
        /// Time of the first id, or of the end of the grant.
        at_ms: u64,
        /// Store time.
        now_ms: u64,
        /// Time until a retry may succeed; None: the grant is not extended.
        wait_ms: Option<u64>,
    },
    /// The layout has no later tick.
    #[error(
        "family {family:?} ended on {end}: make another family, with a later epoch",
        end = format_utc_ms(*end_ms)
    )]
    TimeExhausted {
        /// Name of the family.
        family: String,
        /// End of its layout.
        end_ms: u64,
    },
    /// Each lane of the worker was used for one set-back.
    #[error(
        "worker {worker} has used all of its {lanes} lanes, one for each set-back of store time: retry in {wait} s, or acquire another worker",
        wait = wait_ms.div_ceil(1_000)
    )]
    LanesUsedUp {
        /// The worker.
        worker: WorkerId,
        /// Lanes of the layout.
        lanes: u32,
        /// Time until its last lane can continue.
        wait_ms: u64,
    },
    /// Store time was set by another command.
    #[error("store time was set {0} times, not as often as the command expects: read it again")]
    TimeWasSet(u64),
}

impl IdsRejection {
    /// Returns the time after which a retry may succeed.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            IdsRejection::NoWorker { wait_ms, .. } | IdsRejection::TooFarAhead { wait_ms, .. } => {
                *wait_ms
            }
            IdsRejection::WorkerHeld { wait_ms, .. }
            | IdsRejection::TooManyWorkers { wait_ms, .. }
            | IdsRejection::LanesUsedUp { wait_ms, .. } => Some(*wait_ms),
            _ => None,
        }
    }
}

fn too_far_text(at_ms: u64, now_ms: u64, wait_ms: Option<u64>) -> String {
    let (at, now) = (format_utc_ms(at_ms), format_utc_ms(now_ms));
    match wait_ms {
        Some(ms) => format!(
            "ids would be of {at} and store time is {now}: retry in {} s",
            ms.div_ceil(1_000)
        ),
        None => format!(
            "the grant reaches {at} and store time is {now}: it was set back, or window-max was \
             lowered; release the worker and acquire again"
        ),
    }
}

fn no_worker_text(family: &str, workers: u64, wait_ms: Option<u64>) -> String {
    match wait_ms {
        Some(ms) => format!(
            "all {workers} workers of family {family:?} are held, one may become free in {} s: \
             stop a holder, or make a family with more workers",
            ms.div_ceil(1_000)
        ),
        None => format!(
            "all {workers} workers of family {family:?} were used once, and it never uses one \
             again: make a family with --reuse oldest, or with more workers"
        ),
    }
}
