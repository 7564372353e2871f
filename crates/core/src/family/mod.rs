//! Families of ids that carry the time: each has its layout, its workers and its limits.
//!
//! A family is independent of all others: two of them may give equal ids. Its ids are made by
//! holders of workers, within ticks that the replicated state granted to one holder at a time.

mod checks;
mod command;
mod rejection;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use checks::{no_family_text, validate_family, validate_holder, validate_limits};
pub use command::{AcquireWorker, IdsCommand, WorkerGrant};
pub use rejection::{IdsRejection, IdsRejectionCause};

use crate::ids::{FamilyId, WorkerId};
use crate::layout::{IdLayout, InputError, TickScale};

/// Most families a cluster may have.
pub const FAMILIES_MAX: usize = 256;
/// Bounds of a window, in milliseconds: 1 s to 24 h.
pub const WINDOW_MS: std::ops::RangeInclusive<u32> = 1_000..=86_400_000;
/// Longest name of a holder, in bytes.
pub const HOLDER_NAME_MAX: usize = 128;
/// Most ranges of reserved workers.
pub const RESERVED_RANGES_MAX: usize = 64;

/// A family as the routing table carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// Id given by the store.
    pub id: FamilyId,
    /// Settings that never change.
    pub spec: FamilySpec,
    /// Limits, which may be altered.
    pub limits: FamilyLimits,
    /// Table version of the last change.
    pub version: u64,
}

/// Returns the name of a family; an empty one stands for `snowflake`.
pub fn family_name(name: &str) -> &str {
    match name {
        "" => "snowflake",
        name => name,
    }
}

/// Settings of a family that never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilySpec {
    /// 1 to 64 of `a-z A-Z 0-9 _ . -`, beginning with a letter or digit.
    pub name: String,
    /// Which bits of an id mean what.
    pub layout: IdLayout,
    /// Epoch and unit of ticks.
    pub scale: TickScale,
    /// Data center of this cluster; 0 if the layout has none.
    pub dc: u32,
    /// First worker.
    pub first_worker: WorkerId,
    /// Last worker.
    pub last_worker: WorkerId,
    /// Workers that are never granted, as ascending ranges (first, last).
    pub reserved: Vec<(WorkerId, WorkerId)>,
    /// Whether lanes count set-backs of store time, each used for one. Otherwise they are
    /// timelines: one is used again where it ended, once its ticks have passed.
    pub lanes_once: bool,
    /// Whether each worker is granted once, and never again. Otherwise the one whose ticks passed
    /// first is granted first.
    pub reuse_never: bool,
    /// Whether a holder gets the worker back that it had under its name.
    pub sticky: bool,
    /// Least number within a tick.
    pub seq_min: u32,
}

/// Limits of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyLimits {
    /// How far a grant reaches in front of store time, unless its holder requests another window.
    pub window_ms: u32,
    /// Longest window that a holder may request; a longer request gets this one.
    pub window_max_ms: u32,
    /// How far a holder may stamp in front of its time when the numbers of a tick are used up.
    pub ahead_ms: u32,
    /// Number with which a tick begins.
    pub sequence_start: TickStart,
    /// Most workers that one holder may have at a time.
    pub workers_per_holder: u32,
    /// Whether workers are neither acquired nor renewed.
    pub frozen: bool,
}

/// Number with which a generator begins in a tick to which the clock lifts it. Its text is `zero`,
/// `random:N` or `carry`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TickStart {
    /// The least number.
    Zero,
    /// A number that a hash of tick and worker chooses.
    Random {
        /// How many numbers above the least one it may be.
        below: u32,
    },
    /// The number after the last one; the least number if that is above half.
    Carry,
}

impl fmt::Display for TickStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TickStart::Zero => f.write_str("zero"),
            TickStart::Random { below } => write!(f, "random:{below}"),
            TickStart::Carry => f.write_str("carry"),
        }
    }
}

impl FromStr for TickStart {
    type Err = InputError;

    fn from_str(text: &str) -> Result<TickStart, InputError> {
        let bad = || InputError("write zero, carry, or random:N with N from 1 on".to_owned());
        match text {
            "zero" => Ok(TickStart::Zero),
            "carry" => Ok(TickStart::Carry),
            text => {
                let below = text.strip_prefix("random:").ok_or_else(bad)?;
                let below = below.parse().map_err(|_| bad())?;
                Ok(TickStart::Random { below })
            }
        }
    }
}

/// Change of limits; a value that is None stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyChange {
    /// New [`FamilyLimits::window_ms`].
    pub window_ms: Option<u32>,
    /// New [`FamilyLimits::window_max_ms`].
    pub window_max_ms: Option<u32>,
    /// New [`FamilyLimits::ahead_ms`].
    pub ahead_ms: Option<u32>,
    /// New [`FamilyLimits::sequence_start`].
    pub sequence_start: Option<TickStart>,
    /// New [`FamilyLimits::workers_per_holder`].
    pub workers_per_holder: Option<u32>,
    /// New [`FamilyLimits::frozen`].
    pub frozen: Option<bool>,
}

impl Family {
    /// Returns the names of the settings that another spec and other limits have otherwise.
    pub fn settings_unlike(&self, spec: &FamilySpec, limits: &FamilyLimits) -> Vec<&'static str> {
        let (a, b, c, d) = (&self.spec, spec, &self.limits, limits);
        let workers = |spec: &FamilySpec| (spec.first_worker, spec.last_worker);
        let settings = [
            ("layout", a.layout == b.layout),
            ("epoch or unit", a.scale == b.scale),
            ("dc", a.dc == b.dc),
            ("workers", workers(a) == workers(b)),
            ("reserve", a.reserved == b.reserved),
            ("lanes", a.lanes_once == b.lanes_once),
            ("reuse", a.reuse_never == b.reuse_never),
            ("sticky", a.sticky == b.sticky),
            ("least number of a tick", a.seq_min == b.seq_min),
            ("window", c.window_ms == d.window_ms),
            ("window-max", c.window_max_ms == d.window_max_ms),
            ("ahead", c.ahead_ms == d.ahead_ms),
            ("seq-start", c.sequence_start == d.sequence_start),
            (
                "workers-per-holder",
                c.workers_per_holder == d.workers_per_holder,
            ),
            ("frozen", c.frozen == d.frozen),
        ];
        let unlike = settings.into_iter().filter(|(_, is_same)| !is_same);
        unlike.map(|(name, _)| name).collect()
    }
}

impl FamilyChange {
    /// Returns the limits after this change.
    pub fn apply_to(&self, limits: &FamilyLimits) -> FamilyLimits {
        FamilyLimits {
            window_ms: self.window_ms.unwrap_or(limits.window_ms),
            window_max_ms: self.window_max_ms.unwrap_or(limits.window_max_ms),
            ahead_ms: self.ahead_ms.unwrap_or(limits.ahead_ms),
            sequence_start: self.sequence_start.unwrap_or(limits.sequence_start),
            workers_per_holder: self.workers_per_holder.unwrap_or(limits.workers_per_holder),
            frozen: self.frozen.unwrap_or(limits.frozen),
        }
    }
}

impl From<FamilyLimits> for FamilyChange {
    /// Returns the change to these limits.
    fn from(limits: FamilyLimits) -> FamilyChange {
        FamilyChange {
            window_ms: Some(limits.window_ms),
            window_max_ms: Some(limits.window_max_ms),
            ahead_ms: Some(limits.ahead_ms),
            sequence_start: Some(limits.sequence_start),
            workers_per_holder: Some(limits.workers_per_holder),
            frozen: Some(limits.frozen),
        }
    }
}

impl FamilyLimits {
    /// Default limits of a new family.
    pub const DEFAULT: FamilyLimits = FamilyLimits {
        window_ms: 10_000,
        window_max_ms: 3_600_000,
        ahead_ms: 1_000,
        sequence_start: TickStart::Zero,
        workers_per_holder: 16,
        frozen: false,
    };
}

impl FamilySpec {
    /// Makes a spec with all workers and sequence numbers that the layout has.
    pub fn new(name: &str, layout: IdLayout, scale: TickScale) -> FamilySpec {
        FamilySpec {
            name: name.to_owned(),
            scale,
            dc: 0,
            first_worker: WorkerId(0),
            last_worker: WorkerId((1 << layout.bits_of("worker")) - 1),
            reserved: Vec::new(),
            lanes_once: false,
            reuse_never: false,
            sticky: false,
            seq_min: 0,
            layout,
        }
    }

    /// Returns the number of lanes, 1 to 8.
    pub fn lanes(&self) -> usize {
        1 << self.layout.bits_of("lane")
    }

    /// Returns the first tick that the layout does not have.
    pub fn end_tick(&self) -> u64 {
        1 << self.layout.bits_of("time")
    }

    /// Returns the greatest number within a tick.
    pub fn seq_max(&self) -> u32 {
        (1 << self.layout.bits_of("seq")) - 1
    }

    /// Returns how many ids a tick of a worker has.
    pub fn capacity(&self) -> u64 {
        u64::from(self.seq_max().saturating_sub(self.seq_min)) + 1
    }

    /// Returns the range of reserved workers that a worker lies in.
    pub fn reserved_range(&self, worker: WorkerId) -> Option<(WorkerId, WorkerId)> {
        let mut ranges = self.reserved.iter().copied();
        ranges.find(|(first, last)| (*first..=*last).contains(&worker))
    }

    /// Returns how many workers can be granted.
    pub fn worker_count(&self) -> u64 {
        let count = |(first, last): (WorkerId, WorkerId)| u64::from(last.0 - first.0) + 1;
        let reserved = self.reserved.iter().copied().map(count).sum();
        count((self.first_worker, self.last_worker)).saturating_sub(reserved)
    }

    /// Returns a span of time as ticks, rounded down.
    pub fn ticks_of_ms(&self, ms: u32) -> u64 {
        u64::from(ms) / self.scale.unit_ms()
    }
}

#[cfg(test)]
mod tests;
