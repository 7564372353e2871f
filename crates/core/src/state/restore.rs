//! State of a new cluster, made from a backup of an old one.
//!
//! The old cluster continued after the backup: it added numbers to sections, opened sections, gave
//! slots away. The backup cannot show how far; the operator can, and gives it as
//! [`RestoreMargins`]. Invariant: if since the backup
//! - no section in the backup had more than `max_seq` numbers added by Opens and Raises,
//! - no section outside the backup had more than `start`,
//! - no slot changed its epoch more than `epoch` times,
//!
//! then the new cluster hands out no number that the old cluster handed out, before the backup or
//! after it. No epoch of a slot is used twice, and no generation of a section in the backup. (A
//! section outside the backup begins at generation 1 again, under an epoch never used.) Numbers
//! added bound all that matters: every number handed out lies at or below some max_seq, a Close
//! only lowers it, and each Open adds at least one number and one generation.
//!
//! If all ticks that the old cluster granted lie before `ids_from_ms`, the new cluster grants none
//! of them again, also in families that the backup does not know (`families/restored_ids.rs`).
//!
//! Schedules that break it, and what prevents each:
//! - a section hands out its window up to 10,000, is backed up, raised to 20,000, hands out 15,000,
//!   and is restored at 10,000: the margin `max_seq`. `tests/restore_prop.rs` plays it, and also
//!   shows that one number less repeats one;
//! - the same happens to a section opened after the backup, of which it has no row: `start` is
//!   lifted, as all such sections begin there;
//! - an AllocSvr of the old cluster still runs and renews session 5, which now belongs to another:
//!   session ids continue far above (`SKIPPED_SESSIONS`);
//! - a caller of the old cluster takes numbers of the new one without noticing, because its routing
//!   table is of a higher version than the new cluster's: table versions continue far above
//!   ([`RESTORED_TABLE_VERSION`]), so every such caller is sent the new table and rejects it by its
//!   cluster id;
//! - a worker is granted for the first time after the backup, to 10:00:10, and is never granted in
//!   the restored state, where it begins at 10:00:02: the margin is also the floor of each family.
//!   Its first holder still runs, and renews what another one got at the same epoch: epochs of all
//!   workers without a row are lifted too ([`super::FamilyRow::epoch_floor`]);
//! - a section is opened after the backup, and after the restore `current` answers `never` for it:
//!   a restored cluster's sections begin one number above the floor ([`State::unopened_max_seq`]).

use std::collections::BTreeMap;
use std::fmt;

use super::{ClusterRow, FormatRow, SectionRow, SlotRow, State};
use crate::ids::{ClusterId, Epoch, Generation, NamespaceId, SectionKey};
use crate::layout::format_utc_ms;
use crate::namespace::{NAMESPACES_MAX, Namespace};
use crate::progression::Progression;

/// Table versions of a restored cluster are above this; no other cluster's versions ever reach it.
pub const RESTORED_TABLE_VERSION: u64 = 1 << 48;
/// Session ids left out by a restore: more than can have been opened since any backup.
const SKIPPED_SESSIONS: u64 = 1 << 32;
/// Greatest margin.
pub const MARGIN_MAX: u64 = 1 << 61;

/// Maximum by which the old cluster may have continued since the backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreMargins {
    /// Numbers added to any one section that the backup knows.
    pub max_seq: u64,
    /// Numbers added to any one section opened for the first time since.
    pub start: u64,
    /// Changes of owner of any one slot; becoming free is one.
    pub epoch: u64,
    /// Unix time in milliseconds after all ticks that can have been granted; None: there never was
    /// a family.
    pub ids_from_ms: Option<u64>,
}

/// One of the [`RestoreMargins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMargin {
    /// [`RestoreMargins::max_seq`].
    MaxSeq,
    /// [`RestoreMargins::start`].
    Start,
    /// [`RestoreMargins::epoch`].
    Epoch,
}

impl fmt::Display for RestoreMargin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RestoreMargin::MaxSeq => "max-seq",
            RestoreMargin::Start => "start",
            RestoreMargin::Epoch => "epoch",
        })
    }
}

/// Reason why no cluster can be made of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The state is from before `Init`.
    #[error("it holds no cluster")]
    NoCluster,
    /// A section belongs to no namespace of the state.
    #[error("its section {0} is of no namespace")]
    NoNamespace(SectionKey),
    /// A margin is below what the state itself proves to be needed.
    #[error("the margin {margin} must be at least {least}, not {given}")]
    TooSmall {
        /// The margin.
        margin: RestoreMargin,
        /// Value given.
        given: u64,
        /// Least value allowed.
        least: u64,
    },
    /// A margin is above [`MARGIN_MAX`], or an id or version would leave its range.
    #[error("the margin {0} is too large: give at most 2^61")]
    TooLarge(RestoreMargin),
    /// The margin of ids is missing, or before what the state itself proves to be needed.
    #[error(
        "--ids-from must be {} or later: the backup holds families of ids, and the ticks until then can have been granted",
        format_utc_ms(*least_ms)
    )]
    IdsFromTooEarly {
        /// Least value allowed.
        least_ms: u64,
    },
    /// The start of the namespace of this name would pass 2^63-1.
    #[error(
        "with this margin the start of namespace {0:?} would pass 2^63-1, the last number there is: give a smaller one"
    )]
    PastEnd(String),
}

/// Open sections of a namespace at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenWindows {
    /// Number of open sections.
    pub open: u64,
    /// The largest window (base, max_seq] of these, in numbers.
    pub largest: u64,
}

impl State {
    /// Returns whether a restore made this cluster, or one before it.
    pub fn is_restored(&self) -> bool {
        self.table_version() >= RESTORED_TABLE_VERSION
    }

    /// Returns max_seq of a section that this cluster never opened. In a restored cluster it is not
    /// the floor, by which `current` detects that no number was ever given: an earlier cluster may
    /// have given some.
    pub fn unopened_max_seq(&self, progression: &Progression) -> u64 {
        let floor = progression.max_seq_floor();
        match self.is_restored() {
            true => progression.first_after(floor).unwrap_or(floor),
            false => floor,
        }
    }

    /// Returns the open windows by namespace.
    pub fn open_windows(&self) -> BTreeMap<NamespaceId, OpenWindows> {
        let mut all: BTreeMap<NamespaceId, OpenWindows> = BTreeMap::new();
        for (key, section) in self.sections.iter().filter(|(_, s)| s.open) {
            let namespace = self.namespaces.get(&key.namespace);
            let window = namespace.map_or(0, |n| {
                let progression = n.spec.progression;
                progression.count_between(section.base, section.max_seq)
            });
            let windows = all.entry(key.namespace).or_default();
            windows.open += 1;
            windows.largest = windows.largest.max(window);
        }
        all
    }

    /// Returns the least margins that make sense for this state. They assume that an owner with an
    /// open window received as much again, that a new section received one step, and that every
    /// slot became free when the old cluster ended.
    pub fn least_margins(&self) -> RestoreMargins {
        let largest = self.open_windows().into_values().map(|w| w.largest);
        let steps = self.namespaces.values().map(|n| u64::from(n.spec.step));
        RestoreMargins {
            max_seq: largest.max().unwrap_or(0),
            start: steps.max().unwrap_or(0),
            epoch: 1,
            ids_from_ms: self.least_ids_from_ms(),
        }
    }

    /// Returns the state as a backup has it, without the nonces that prove who a caller is.
    ///
    /// Invariant: who reads a backup can act for no AllocSvr and no holder. Schedule: a nonce is
    /// read from the file, and a worker is released with it. Its holder uses the rest of its grant,
    /// and the next holder the same ticks. A restore drops sessions, and frees all workers, anyway.
    pub fn for_backup(&self) -> State {
        let slots = self.slots.iter().map(|slot| SlotRow {
            owner: None,
            ..slot.clone()
        });
        State {
            sessions: BTreeMap::new(),
            slots: slots.collect(),
            workers: self.workers.without_nonces(),
            ..self.clone()
        }
    }

    /// Returns the state of the new cluster `id`: no sessions, every slot free under a new epoch,
    /// every section closed, and all lifted by the margins. A section that would pass 2^63-1 ends
    /// there: its keys are exhausted, which repeats nothing.
    ///
    /// # Errors
    /// See [`RestoreError`].
    pub fn restored(&self, id: ClusterId, margins: RestoreMargins) -> Result<State, RestoreError> {
        let old = self.cluster.as_ref().ok_or(RestoreError::NoCluster)?;
        margins.check(&self.least_margins())?;
        let table_version = old.table_version.checked_add(RESTORED_TABLE_VERSION);
        let table_version = table_version.ok_or(RestoreError::TooLarge(RestoreMargin::Epoch))?;
        let mut new = State {
            cluster: Some(ClusterRow {
                id,
                table_version,
                next_session: old.next_session.saturating_add(SKIPPED_SESSIONS),
                // As many as can have been made since.
                next_namespace: old.next_namespace.saturating_add(NAMESPACES_MAX as u32),
                ..old.clone()
            }),
            // Store ids start again: no node of the old cluster takes part in the new one.
            format: self.format.map(|old| FormatRow {
                next_store: 1,
                ..old
            }),
            time: self.time,
            ..State::default()
        };
        self.restore_families(&mut new, &margins)?;
        for (id, namespace) in &self.namespaces {
            let lifted = lift_namespace(namespace, margins.start, table_version)?;
            new.namespaces.insert(*id, lifted);
        }
        for (key, section) in self.sections.iter() {
            let progression = |of: &State| {
                let namespace = of.namespaces.get(&key.namespace);
                namespace.map(|n| n.spec.progression)
            };
            let (before, after) = progression(self)
                .zip(progression(&new))
                .ok_or(RestoreError::NoNamespace(*key))?;
            let begin = new.unopened_max_seq(&after);
            let lifted = lift_section(section, margins.max_seq, &before, begin)?;
            new.sections.insert(*key, lifted);
        }
        for slot in &self.slots {
            // One more than all that may have been used, as for every slot that becomes free.
            let epoch = slot.epoch.0.checked_add(margins.epoch + 1);
            new.slots.push(SlotRow {
                epoch: Epoch(epoch.ok_or(RestoreError::TooLarge(RestoreMargin::Epoch))?),
                owner: None,
                version: table_version,
            });
        }
        Ok(new)
    }
}

impl RestoreMargins {
    fn check(&self, least: &RestoreMargins) -> Result<(), RestoreError> {
        for (margin, given, least) in [
            (RestoreMargin::MaxSeq, self.max_seq, least.max_seq),
            (RestoreMargin::Start, self.start, least.start),
            (RestoreMargin::Epoch, self.epoch, least.epoch),
        ] {
            if given < least {
                return Err(RestoreError::TooSmall {
                    margin,
                    given,
                    least,
                });
            }
            if given > MARGIN_MAX {
                return Err(RestoreError::TooLarge(margin));
            }
        }
        match least.ids_from_ms {
            Some(least_ms) if self.ids_from_ms < Some(least_ms) => {
                Err(RestoreError::IdsFromTooEarly { least_ms })
            }
            _ => Ok(()),
        }
    }
}

/// Returns the namespace with its start lifted by the margin.
fn lift_namespace(
    namespace: &Namespace,
    margin: u64,
    version: u64,
) -> Result<Namespace, RestoreError> {
    let past_end = || RestoreError::PastEnd(namespace.spec.name.clone());
    let mut spec = namespace.spec.clone();
    let old = spec.progression;
    if margin > 0 {
        let floor = old
            .nth_after(old.max_seq_floor(), margin)
            .ok_or_else(past_end)?;
        if old.count_between(old.max_seq_floor(), floor) < margin {
            return Err(past_end());
        }
        spec.progression.start = floor + 1;
    }
    spec.validate().map_err(|_| past_end())?;
    Ok(Namespace {
        spec,
        version,
        ..namespace.clone()
    })
}

/// Returns the section closed, with max_seq and generation lifted by the margin; max_seq is at
/// least `begin`.
fn lift_section(
    section: &SectionRow,
    margin: u64,
    progression: &Progression,
    begin: u64,
) -> Result<SectionRow, RestoreError> {
    let lifted = match margin {
        0 => section.max_seq,
        // None: nothing is left above max_seq, and nothing was added.
        _ => progression
            .nth_after(section.max_seq, margin)
            .unwrap_or(section.max_seq),
    };
    let max_seq = lifted.max(begin);
    let generation = section.generation.0.checked_add(margin + 1);
    Ok(SectionRow {
        max_seq,
        base: max_seq,
        generation: Generation(generation.ok_or(RestoreError::TooLarge(RestoreMargin::MaxSeq))?),
        open: false,
        ..section.clone()
    })
}
