//! A cluster is backed up, continues, is lost, and restored: nothing that it used is used again.
#![expect(clippy::unwrap_used, reason = "tests")]

#[path = "restore_prop/families.rs"]
mod families;
#[path = "restore_prop/world.rs"]
mod world;

use proptest::prelude::*;
use seqsvr_core::SEQ_MAX;
use seqsvr_core::command::{Command, Reply};
use seqsvr_core::ids::{ClusterId, Epoch, Generation, NamespaceId};
use seqsvr_core::state::State;
use seqsvr_core::state::restore::{
    MARGIN_MAX, RESTORED_TABLE_VERSION, RestoreError, RestoreMargin, RestoreMargins,
};

use world::{SECTIONS, THIRDS, World, random_ops, section_key};

const NEW: ClusterId = ClusterId(2);

/// Returns the margins, each raised to its least allowed value.
fn raise_to_least(margins: RestoreMargins, least: RestoreMargins) -> RestoreMargins {
    RestoreMargins {
        max_seq: margins.max_seq.max(least.max_seq),
        start: margins.start.max(least.start),
        epoch: margins.epoch.max(least.epoch),
        ids_from_ms: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn restored_cluster_reuses_nothing(
        before in random_ops(60),
        after in random_ops(60),
        more in random_ops(60),
    ) {
        let mut old = World::new();
        old.assign_all();
        before.into_iter().for_each(|op| old.play_op(op));
        let backup = old.back_up();
        after.into_iter().for_each(|op| old.play_op(op));
        let margins = raise_to_least(old.exact_margins_since(&backup), backup.least_margins());
        let state = backup.restored(NEW, margins).unwrap();

        prop_assert_eq!(state.cluster().unwrap().id, NEW);
        prop_assert_eq!(state.sessions().count(), 0);
        prop_assert!(state.table_version() > RESTORED_TABLE_VERSION.max(old.state.table_version()));
        prop_assert_eq!(State::from_rows(state.rows()).unwrap(), state.clone());
        for (key, row) in state.sections() {
            prop_assert!(!row.open);
            let used = old.state.section(*key).map_or(Generation(0), |s| s.generation);
            prop_assert!(row.generation > used, "{key}");
        }
        for (i, slot) in state.slots().iter().enumerate() {
            prop_assert!(slot.owner.is_none());
            prop_assert!(slot.epoch > old.state.slots()[i].epoch);
        }
        let ended = old.state.cluster().unwrap().next_session;
        prop_assert!(state.cluster().unwrap().next_session > ended);

        // The new cluster works, and all that it opens begins above all numbers of the old one.
        let mut new = World { state, nonce: 1 << 64, ..World::default() };
        new.assign_all();
        let epochs: Vec<Epoch> = new.state.slots().iter().map(|s| s.epoch).collect();
        for (i, epoch) in epochs.iter().enumerate() {
            prop_assert!(*epoch > old.state.slots()[i].epoch);
        }
        more.into_iter().for_each(|op| new.play_op(op));
        new.assign_all();
        for namespace in [NamespaceId(1), THIRDS] {
            let progression = new.namespace_of(namespace).spec.progression;
            for number in 0..SECTIONS {
                let key = section_key(namespace, number);
                let Reply::Opened { base, .. } = new.open_section(key, 1) else {
                    return Err(TestCaseError::fail("it opens"));
                };
                prop_assert_ne!(base, progression.max_seq_floor(), "`never` would be answered");
                let peak = old.peak.get(&key).copied().unwrap_or(0);
                prop_assert!(progression.first_after(base).unwrap() > peak, "{key}: {base} {peak}");
            }
        }
    }

    #[test]
    fn margins_below_the_least_are_rejected(before in random_ops(60), which in 0..3usize) {
        let mut old = World::new();
        old.assign_all();
        before.into_iter().for_each(|op| old.play_op(op));
        let least = old.state.least_margins();
        prop_assert!(old.state.restored(NEW, least).is_ok());
        let mut small = least;
        let (margin, value) = [
            (RestoreMargin::MaxSeq, &mut small.max_seq),
            (RestoreMargin::Start, &mut small.start),
            (RestoreMargin::Epoch, &mut small.epoch),
        ].into_iter().nth(which).unwrap();
        prop_assume!(*value > 0);
        *value -= 1;
        let (given, least) = (*value, *value + 1);
        prop_assert_eq!(
            old.state.restored(NEW, small),
            Err(RestoreError::TooSmall { margin, given, least })
        );
    }
}

/// The first schedule of `state/restore.rs`: with the exact margin nothing repeats, with one less a
/// number does.
#[test]
fn margin_of_one_number_less_repeats_one() {
    let mut old = World::new();
    old.assign_all();
    let (known, new) = (section_key(THIRDS, 0), section_key(THIRDS, 1));
    old.open_section(known, 100);
    let backup = old.back_up();
    old.raise_section(known, 900).unwrap();
    old.open_section(new, 700);
    let exact = old.exact_margins_since(&backup);
    assert_eq!((exact.max_seq, exact.start), (900, 700));
    let begins = |margins: RestoreMargins, key| {
        let margins = raise_to_least(
            margins,
            RestoreMargins {
                epoch: 1,
                ..margins
            },
        );
        let mut world = World {
            state: backup.restored(NEW, margins).unwrap(),
            nonce: 1 << 64,
            ..World::default()
        };
        world.assign_all();
        let Reply::Opened { base, .. } = world.open_section(key, 1) else {
            panic!("it opens");
        };
        base + 3
    };
    let low = RestoreMargins {
        start: 700,
        ..exact
    };
    assert_eq!(begins(low, known), old.peak[&known] + 3);
    let less = RestoreMargins {
        max_seq: 899,
        ..exact
    };
    assert_eq!(
        begins(less, known),
        old.peak[&known],
        "handed out before: repeated"
    );
    assert!(begins(exact, new) > old.peak[&new]);
    // One number is left out anyway, so that `never` is not answered: two less.
    let less = RestoreMargins {
        start: 698,
        ..exact
    };
    assert!(begins(less, new) <= old.peak[&new], "repeated");
}

#[test]
fn restore_past_the_last_number_is_rejected() {
    let mut old = World::new();
    old.assign_all();
    let key = section_key(NamespaceId(1), 0);
    old.open_section(key, 1);
    old.raise_section(key, SEQ_MAX - 10).unwrap();
    let backup = old.back_up();
    let margins = raise_to_least(
        RestoreMargins {
            max_seq: 1_000,
            ..RestoreMargins::default()
        },
        backup.least_margins(),
    );
    // The least margin is above the greatest allowed one: the open window is most of the range.
    assert_eq!(
        backup.restored(NEW, margins),
        Err(RestoreError::TooLarge(RestoreMargin::MaxSeq))
    );
    let row = old.state.section(key).unwrap().clone();
    old.play(Command::CloseSection {
        fence: old.fence(key),
        generation: row.generation,
        value: row.max_seq,
    });
    let closed = old.back_up();
    let least = closed.least_margins();
    let margins = raise_to_least(
        RestoreMargins {
            max_seq: 1_000,
            ..least
        },
        least,
    );
    let mut new = World {
        state: closed.restored(NEW, margins).unwrap(),
        ..World::default()
    };
    assert_eq!(new.state.section(key).unwrap().max_seq, SEQ_MAX);
    new.assign_all();
    assert!(matches!(new.open_section(key, 1), Reply::Rejected(_)));
    let far = RestoreMargins {
        start: MARGIN_MAX,
        ..margins
    };
    let once = closed.restored(NEW, far).unwrap();
    let mut lifted = once;
    let rejection = loop {
        match lifted.restored(NEW, far) {
            Ok(state) => lifted = state,
            Err(e) => break e,
        }
    };
    assert!(matches!(rejection, RestoreError::PastEnd(_)), "{rejection}");
    assert_eq!(
        State::default().restored(NEW, margins),
        Err(RestoreError::NoCluster)
    );
}
