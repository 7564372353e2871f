//! One key at a time: the schedules that frames are held to, and that both take from the same
//! counters.

use std::num::NonZeroU32;

use super::*;
use crate::frame::TakeArgs;

fn wanted(count: u32) -> TakeArgs {
    TakeArgs {
        count: NonZeroU32::new(count).unwrap(),
        floor: 0,
        epoch: 0,
    }
}

impl FastPathFixture {
    /// The first of so many numbers of a uid and the last.
    fn one(&self, uid: u64, wanted: TakeArgs) -> Option<(u64, u64)> {
        let uid = KeyRef::Uid(Uid(uid));
        let (range, epoch) = self.node.hit_one("", uid, wanted)?;
        assert!(epoch.0 > 0);
        Some((range.first, range.last))
    }

    fn counted(&self) -> (u64, u64) {
        let counters = &self.node.counters;
        (counters.nexts.get(), counters.numbers.get())
    }
}

#[tokio::test]
async fn one_and_many_take_from_the_same_counters() {
    let world = FastPathFixture::new().await;
    let before = world.clock.readings.load(Relaxed);
    assert_eq!(world.one(5, wanted(1)), Some((1, 1)));
    assert_eq!(world.one(5, wanted(3)), Some((2, 4)));
    assert_eq!(world.clock.readings.load(Relaxed), before + 2);
    assert_eq!(world.next(&[5]).columns.values, [5]);
    assert_eq!(world.one(5, wanted(1)), Some((6, 6)));
    assert_eq!((world.counted(), world.burned()), ((4, 6), 0));
    // A uid in a namespace of keys is its decimal text.
    let take = |key| world.node.hit_one("keys", key, wanted(1)).unwrap().0.last;
    assert_eq!(take(KeyRef::Uid(Uid(42))), 1);
    assert_eq!(take(KeyRef::Key(b"42")), 2);
    let text = world.node.hit_one("", KeyRef::Key(b"42"), wanted(1));
    assert_eq!(text.unwrap().0.last, 3);
}

#[tokio::test]
async fn one_number_taken_before_the_lease_ran_out_is_not_answered_after() {
    let world = FastPathFixture::new().await;
    assert_eq!(world.one(7, wanted(1)), Some((1, 1)));
    let clock = world.clock.clone();
    world.at_the_check(move || clock.ns.store(D.as_nanos() as u64, Relaxed));
    assert_eq!(world.one(7, wanted(2)), None);
    assert_eq!(world.burned(), 2);
    // Known to be over, it burns no more.
    assert_eq!(world.one(7, wanted(2)), None);
    assert_eq!((world.counted(), world.burned()), ((1, 1), 2));
    let now = world.clock.now();
    world.session.renew(Lease::new(now, D));
    assert_eq!(world.one(7, wanted(1)), Some((4, 4)));
}

#[tokio::test]
async fn one_number_of_a_session_that_ended_meanwhile_is_not_answered() {
    let world = FastPathFixture::new().await;
    let (node, session) = (world.node.clone(), world.session.clone());
    world.at_the_check(move || drop(node.sections.end_session(&session)));
    assert_eq!(world.one(7, wanted(1)), None);
    assert_eq!(world.burned(), 1);
    let new = Arc::new(LeasedSession::new(SessionId(2)));
    new.renew(Lease::new(START, D));
    world.node.session.store(Some(new));
    assert_eq!(world.one(7, wanted(1)), None);
    assert_eq!(world.burned(), 1);
}

/// Without the second look at the table the number would be answered after the new owner's greater
/// ones.
#[tokio::test]
async fn one_number_of_a_slot_that_moved_meanwhile_is_not_answered() {
    let world = FastPathFixture::new().await;
    assert_eq!(world.one(7, wanted(1)), Some((1, 1)), "it is cached");
    let (node, moved) = (world.node.clone(), world.slot(7));
    world.at_the_check(move || {
        let newer = delta(2, vec![route(moved.0, 2, 2)]);
        assert!(node.table.apply(newer).unwrap());
    });
    assert_eq!(world.one(7, wanted(5)), None);
    assert_eq!((world.counted(), world.burned()), ((1, 1), 5));
    // From now on it is missed before anything is taken.
    assert_eq!(world.one(7, wanted(5)), None);
    // Back at a greater epoch, the old section object stays out of use.
    let back = delta(3, vec![route(moved.0, 1, 3)]);
    assert!(world.node.table.apply(back).unwrap());
    assert_eq!(world.one(7, wanted(5)), None);
    assert_eq!(world.burned(), 5);
    // Another slot's change takes nothing away.
    let other = four().into_iter().find(|uid| world.slot(*uid) != moved);
    let (node, other) = (world.node.clone(), other.unwrap());
    world.at_the_check(move || {
        let newer = delta(4, vec![route(moved.0, 2, 4)]);
        assert!(node.table.apply(newer).unwrap());
    });
    assert_eq!(world.one(other, wanted(1)), Some((1, 1)));
    assert_eq!(world.burned(), 5);
}

#[tokio::test]
async fn a_section_opened_again_is_not_taken_for_what_it_was() {
    let world = FastPathFixture::new().await;
    assert_eq!(world.one(5, wanted(1)), Some((1, 1)));
    world.open(1, 0, 2, 1_000);
    assert_eq!(world.one(5, wanted(1)), Some((1_001, 1_001)));
    let first = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(0),
    };
    let object = world.node.sections.get(first).unwrap();
    object.section.seal();
    assert_eq!(world.one(5, wanted(1)), None, "sealed");
    assert!(world.node.sections.retire(&object));
    assert_eq!(world.one(5, wanted(1)), None, "not loaded");
    assert_eq!(world.burned(), 0);
}

#[tokio::test]
async fn one_that_is_not_as_usual_is_missed_and_costs_nothing() {
    let world = FastPathFixture::new().await;
    assert_eq!(world.one(7, wanted(1)), Some((1, 1)));
    for unusual in [
        TakeArgs {
            epoch: 2,
            ..wanted(1)
        },
        TakeArgs {
            floor: 2,
            ..wanted(1)
        },
        wanted(5_000),
        wanted(100_001),
    ] {
        assert_eq!(world.one(7, unusual), None);
    }
    assert_eq!(world.one(4 * SECTION, wanted(1)), None);
    assert_eq!(world.one(1 << 40, wanted(1)), None);
    let of = |namespace, key| world.node.hit_one(namespace, key, wanted(1)).is_some();
    assert!(!of("none", KeyRef::Uid(Uid(7))));
    assert!(!of("default", KeyRef::Key(b"seven")));
    assert!(!of("", KeyRef::Key(b"")));
    assert!(!of("", KeyRef::Key(&[b'k'; 129])));
    assert_eq!((world.counted(), world.burned()), ((1, 1), 0));
    let seen = TakeArgs {
        floor: 1,
        ..wanted(1)
    };
    assert_eq!(
        world.one(7, seen),
        Some((2, 2)),
        "a true floor, and nothing was taken"
    );
}

#[tokio::test]
async fn a_section_that_single_numbers_were_taken_of_is_refilled() {
    let world = FastPathFixture::new().await;
    let section = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(0),
    };
    let loaded = world.node.sections.get(section).unwrap();
    assert_eq!(world.one(7, wanted(400)), Some((1, 400)));
    assert!(!loaded.wants_raise());
    assert_eq!(world.one(7, wanted(200)), Some((401, 600)));
    assert!(!loaded.begin_raise(), "a raise is under way");
}

/// Schedule: see `withdrawn`.
#[tokio::test]
async fn one_number_of_a_namespace_that_became_strict_meanwhile_is_not_answered() {
    let world = FastPathFixture::new().await;
    world.strict_at_the_check();
    assert_eq!(world.one(7, wanted(2)), None);
    assert_eq!((world.counted(), world.burned()), ((0, 0), 2));
}
