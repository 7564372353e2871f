//! The format level of a cluster, and the store ids that its members have used.
//!
//! Invariant: the level never falls. It rises only by a command that the leader proposes once every
//! member reports that it supports the new level. Everything that `apply` does differently, and
//! every constant it depends on, belongs to a level: replicas of different builds apply one entry
//! in the same way. Schedule that breaks it: a build with a larger limit leads. A follower of an
//! older build rejects in `apply` what the leader accepts, and their states diverge without an
//! error.
//!
//! Invariant, from level 2 on: a store id that a member ever had is below `next_store`. Schedule
//! that breaks Raft without it: store 3 leads term t and is cut off. Store 3 is removed, and
//! another directory is added as store 3. The new one leads term t + 5. The old one sees its own id
//! in a higher committed vote and leads again without an election.

use std::collections::BTreeSet;

use super::apply::CommandOutcome;
use super::{FormatRow, RowKey, State};
use crate::command::{CommandRejection, Reply};

/// Newest format level that this build supports.
pub const FORMAT_LEVEL_MAX: u32 = 3;

impl State {
    /// Returns the format level of the cluster.
    pub fn format_level(&self) -> u32 {
        self.format.map_or(1, |f| f.level)
    }

    /// Returns the lowest store id that no member ever had; None below level 2, which does not
    /// record it.
    pub fn next_store(&self) -> Option<u64> {
        self.format.map(|f| f.next_store)
    }

    pub(super) fn set_format_level(
        &mut self,
        level: u32,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        if level > FORMAT_LEVEL_MAX {
            // Frames of a higher level are not decoded by this build, so no entry comes here.
            return Err(CommandRejection::Invalid(format!(
                "format level {level} is unknown to this build: it supports {FORMAT_LEVEL_MAX}"
            )));
        }
        if level > self.format_level() {
            let next_store = self.next_store().unwrap_or(1);
            self.format = Some(FormatRow { level, next_store });
            touched.insert(RowKey::Format);
        }
        Ok(Reply::Done)
    }

    /// Notes the highest id among the members, so that no later member gets an id up to it.
    pub fn record_store_id(&mut self, highest: u64, touched: &mut BTreeSet<RowKey>) {
        let next = highest.saturating_add(1);
        if let Some(format) = &mut self.format
            && format.next_store < next
        {
            format.next_store = next;
            touched.insert(RowKey::Format);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ADDRESS_MAX, Batch, Command, HIGH_WATER_MARKS_MAX, SESSIONS_MAX};
    use crate::family::{FAMILIES_MAX, HOLDER_NAME_MAX, RESERVED_RANGES_MAX, WINDOW_MS};
    use crate::geometry::{Geometry, KEYED_SECTIONS_MAX, SECTION_SIZE_MAX, SLOTS_MAX};
    use crate::ids::ClusterId;
    use crate::namespace::{
        NAME_MAX, NAMESPACES_MAX, NamespaceLimits, NamespaceSpec, STEP_DEFAULT, STEP_MAX,
        STRIDE_MAX, validate_name,
    };
    use crate::state::apply::LEASE_MS;
    use crate::state::families::{GIVEN_UP_PER_ACQUISITION, LANE_ROWS_EXAMINED_MAX};

    fn set(state: &mut State, level: u32) -> (Reply, BTreeSet<RowKey>) {
        let batch = Batch {
            commands: vec![Command::SetLevel { level }],
        };
        let mut touched = BTreeSet::new();
        (state.apply(1, &batch, &mut touched).remove(0), touched)
    }

    fn cluster() -> State {
        let mut state = State::default();
        let init = Command::Init {
            cluster: ClusterId(7),
            lease_ms: 3_000,
            slots: 1,
        };
        let commands = vec![init];
        state.apply(1, &Batch { commands }, &mut BTreeSet::new());
        state
    }

    #[test]
    fn format_level_rises_once_and_never_falls() {
        let mut state = cluster();
        assert_eq!((state.format_level(), state.next_store()), (1, None));
        let row = [RowKey::Format].into();
        assert_eq!(set(&mut state, 2), (Reply::Done, row));
        assert_eq!((state.format_level(), state.next_store()), (2, Some(1)));
        let two = state.clone();
        for level in [2, 1, 0] {
            assert_eq!(set(&mut state, level), (Reply::Done, BTreeSet::new()));
        }
        assert!(matches!(
            set(&mut state, FORMAT_LEVEL_MAX + 1).0,
            Reply::Rejected(_)
        ));
        assert_eq!(state, two);
        assert_eq!(State::from_rows(state.rows()), Some(two));
    }

    #[test]
    fn format_level_needs_a_cluster() {
        let mut state = State::default();
        let refused = Reply::Rejected(CommandRejection::NotInitialized);
        assert_eq!(set(&mut state, 2), (refused, BTreeSet::new()));
    }

    #[test]
    fn highest_store_id_never_falls() {
        let (mut state, mut touched) = (cluster(), BTreeSet::new());
        state.record_store_id(3, &mut touched);
        assert_eq!((state.next_store(), touched.len()), (None, 0));
        set(&mut state, 2);
        for (highest, next) in [(3, 4), (1, 4), (9, 10), (u64::MAX, u64::MAX)] {
            state.record_store_id(highest, &mut touched);
            assert_eq!(state.next_store(), Some(next));
        }
        assert_eq!(touched, [RowKey::Format].into());
    }

    /// Invariant: `apply` gives the same result on every build that supports a level. A constant
    /// that changes here needs a new level, and `apply` must use the old value below that level.
    #[test]
    fn every_constant_of_apply_belongs_to_a_level() {
        assert_eq!(
            FORMAT_LEVEL_MAX, 3,
            "say which constants the new level changes"
        );
        // Levels 1 and 2.
        assert_eq!(LEASE_MS, 300..=60_000);
        assert_eq!(SLOTS_MAX, 16_384);
        assert_eq!(
            (HIGH_WATER_MARKS_MAX, ADDRESS_MAX, SESSIONS_MAX),
            (1_000, 256, 4_096)
        );
        assert_eq!((NAMESPACES_MAX, NAME_MAX), (4_096, 64));
        assert_eq!((STEP_MAX, STRIDE_MAX), (1 << 30, 65_536));
        assert_eq!((SECTION_SIZE_MAX, KEYED_SECTIONS_MAX), (1 << 24, 1 << 20));
        assert_eq!(crate::SEQ_MAX, (1 << 63) - 1);
        // What `Init` creates namespaces with.
        assert_eq!(STEP_DEFAULT, 10_000);
        let limits = NamespaceLimits {
            step_max: 1 << 27,
            raise_to_max: 1_000_000_000,
            strict: false,
        };
        assert_eq!(NamespaceLimits::DEFAULT, limits);
        let (dense, keyed) = (
            NamespaceSpec::default_dense(),
            NamespaceSpec::default_keyed(),
        );
        let (section_size, max_uid) = (100_000, 1 << 32);
        let geometry = Geometry::Dense {
            section_size,
            max_uid,
        };
        assert_eq!((&*dense.name, dense.geometry), ("default", geometry));
        let geometry = Geometry::Keyed { sections: 4_096 };
        assert_eq!((&*keyed.name, keyed.geometry), ("keys", geometry));
        // Level 3.
        assert_eq!((FAMILIES_MAX, RESERVED_RANGES_MAX), (256, 64));
        assert_eq!((WINDOW_MS, HOLDER_NAME_MAX), (1_000..=86_400_000, 128));
        assert_eq!(LANE_ROWS_EXAMINED_MAX, 1_000);
        assert_eq!(GIVEN_UP_PER_ACQUISITION, 2);
        assert_eq!(crate::layout::UNIT_MS_MAX, 3_600_000);
        // Names.
        for good in ["a", "0", "a1-b_c.d", &"x".repeat(64)] {
            assert!(validate_name("namespace", good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            "-a",
            "_a",
            ".a",
            "a b",
            "a/b",
            "\u{e4}",
            &"x".repeat(65),
        ] {
            assert!(validate_name("namespace", bad).is_err(), "{bad:?}");
        }
    }
}
