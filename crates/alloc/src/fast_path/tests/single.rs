//! One key at a time: the same schedules as for batches, and both take from the same counters.

use std::num::NonZeroU32;

use super::*;
use crate::batch::request::TakeArgs;

fn take_args(count: u32) -> TakeArgs {
    TakeArgs {
        count: NonZeroU32::new(count).unwrap(),
        floor: 0,
        epoch: 0,
    }
}

impl FastPathFixture {
    /// Takes numbers of a uid, and returns the first and the last.
    fn take_single(&self, uid: u64, args: TakeArgs) -> Option<(u64, u64)> {
        let uid = KeyRef::Uid(uid);
        let (range, epoch) = self.fast_path.try_one("", uid, args)?;
        assert!(epoch.0 > 0);
        Some((range.first, range.last))
    }

    fn nexts_and_numbers(&self) -> (u64, u64) {
        let counters = &self.fast_path.shared.counters;
        (counters.next_items.get(), counters.numbers_issued.get())
    }
}

#[tokio::test]
async fn single_and_batch_share_counters() {
    let fixture = FastPathFixture::new().await;
    let before = fixture.clock.readings.load(Relaxed);
    assert_eq!(fixture.take_single(5, take_args(1)), Some((1, 1)));
    assert_eq!(fixture.take_single(5, take_args(3)), Some((2, 4)));
    assert_eq!(fixture.clock.readings.load(Relaxed), before + 2);
    assert_eq!(fixture.take_next(&[5]).answers.values, [5]);
    assert_eq!(fixture.take_single(5, take_args(1)), Some((6, 6)));
    assert_eq!(
        (fixture.nexts_and_numbers(), fixture.discarded_count()),
        ((4, 6), 0)
    );
    // A uid in a namespace of keys is its decimal text.
    let take = |key| {
        fixture
            .fast_path
            .try_one("keys", key, take_args(1))
            .unwrap()
            .0
            .last
    };
    assert_eq!(take(KeyRef::Uid(42)), 1);
    assert_eq!(take(KeyRef::Key(b"42")), 2);
    let text = fixture
        .fast_path
        .try_one("", KeyRef::Key(b"42"), take_args(1));
    assert_eq!(text.unwrap().0.last, 3);
}

#[tokio::test]
async fn single_number_taken_before_lease_end_is_discarded() {
    let fixture = FastPathFixture::new().await;
    assert_eq!(fixture.take_single(7, take_args(1)), Some((1, 1)));
    let clock = fixture.clock.clone();
    fixture.run_at_check(move || clock.ns.store(LEASE.as_nanos() as u64, Relaxed));
    assert_eq!(fixture.take_single(7, take_args(2)), None);
    assert_eq!(fixture.discarded_count(), 2);
    // The lease is known to have expired, so no more numbers are discarded.
    assert_eq!(fixture.take_single(7, take_args(2)), None);
    assert_eq!(
        (fixture.nexts_and_numbers(), fixture.discarded_count()),
        ((1, 1), 2)
    );
    let now = fixture.clock.now();
    fixture.session.renew(Lease::new(now, LEASE));
    assert_eq!(fixture.take_single(7, take_args(1)), Some((4, 4)));
}

#[tokio::test]
async fn single_number_of_ended_session_is_discarded() {
    let fixture = FastPathFixture::new().await;
    let (sections, session) = (fixture.sections.clone(), fixture.session.clone());
    fixture.run_at_check(move || drop(sections.end_session(&session)));
    assert_eq!(fixture.take_single(7, take_args(1)), None);
    assert_eq!(fixture.discarded_count(), 1);
    let new = Arc::new(LeasedSession::new(SessionId(2)));
    new.renew(Lease::new(START, LEASE));
    fixture.current_session.replace(Some(new));
    assert_eq!(fixture.take_single(7, take_args(1)), None);
    assert_eq!(fixture.discarded_count(), 1);
}

/// Without the second read of the table the number would be answered after the new owner's greater
/// ones.
#[tokio::test]
async fn single_number_of_moved_slot_is_discarded() {
    let fixture = FastPathFixture::new().await;
    assert_eq!(
        fixture.take_single(7, take_args(1)),
        Some((1, 1)),
        "it is cached"
    );
    let (table, moved) = (fixture.table.clone(), fixture.slot_of_uid(7));
    fixture.run_at_check(move || {
        let newer = table_delta(2, vec![owned_route(moved.0, 2, 2)]);
        assert!(table.apply(newer).unwrap());
    });
    assert_eq!(fixture.take_single(7, take_args(5)), None);
    assert_eq!(
        (fixture.nexts_and_numbers(), fixture.discarded_count()),
        ((1, 1), 5)
    );
    // From now on it is missed before anything is taken.
    assert_eq!(fixture.take_single(7, take_args(5)), None);
    // After the slot has come back at a greater epoch, the old section object is not used.
    let back = table_delta(3, vec![owned_route(moved.0, 1, 3)]);
    assert!(fixture.table.apply(back).unwrap());
    assert_eq!(fixture.take_single(7, take_args(5)), None);
    assert_eq!(fixture.discarded_count(), 5);
    // A change of another slot withdraws nothing.
    let other = uid_of_each_section()
        .into_iter()
        .find(|uid| fixture.slot_of_uid(*uid) != moved);
    let (table, other) = (fixture.table.clone(), other.unwrap());
    fixture.run_at_check(move || {
        let newer = table_delta(4, vec![owned_route(moved.0, 2, 4)]);
        assert!(table.apply(newer).unwrap());
    });
    assert_eq!(fixture.take_single(other, take_args(1)), Some((1, 1)));
    assert_eq!(fixture.discarded_count(), 5);
}

#[tokio::test]
async fn single_number_comes_from_reopened_section() {
    let fixture = FastPathFixture::new().await;
    assert_eq!(fixture.take_single(5, take_args(1)), Some((1, 1)));
    fixture.publish_section(1, 0, 2, 1_000);
    assert_eq!(fixture.take_single(5, take_args(1)), Some((1_001, 1_001)));
    let first = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(0),
    };
    let object = fixture.sections.get(first).unwrap();
    object.section.seal();
    assert_eq!(fixture.take_single(5, take_args(1)), None, "sealed");
    assert!(fixture.sections.retire(&object));
    assert_eq!(fixture.take_single(5, take_args(1)), None, "not loaded");
    assert_eq!(fixture.discarded_count(), 0);
}

#[tokio::test]
async fn single_unusual_request_is_missed_without_burning() {
    let fixture = FastPathFixture::new().await;
    assert_eq!(fixture.take_single(7, take_args(1)), Some((1, 1)));
    for unusual in [
        TakeArgs {
            epoch: 2,
            ..take_args(1)
        },
        TakeArgs {
            floor: 2,
            ..take_args(1)
        },
        take_args(5_000),
        take_args(100_001),
    ] {
        assert_eq!(fixture.take_single(7, unusual), None);
    }
    assert_eq!(fixture.take_single(4 * SECTION_SIZE, take_args(1)), None);
    assert_eq!(fixture.take_single(1 << 40, take_args(1)), None);
    let of = |namespace, key| {
        fixture
            .fast_path
            .try_one(namespace, key, take_args(1))
            .is_some()
    };
    assert!(!of("none", KeyRef::Uid(7)));
    assert!(!of("default", KeyRef::Key(b"seven")));
    assert!(!of("", KeyRef::Key(b"")));
    assert!(!of("", KeyRef::Key(&[b'k'; 129])));
    assert_eq!(
        (fixture.nexts_and_numbers(), fixture.discarded_count()),
        ((1, 1), 0)
    );
    let seen = TakeArgs {
        floor: 1,
        ..take_args(1)
    };
    assert_eq!(
        fixture.take_single(7, seen),
        Some((2, 2)),
        "a true floor, and nothing was taken"
    );
}

#[tokio::test]
async fn single_numbers_start_refill() {
    let fixture = FastPathFixture::new().await;
    let section = SectionKey {
        namespace: NamespaceId(1),
        section: SectionId(0),
    };
    let loaded = fixture.sections.get(section).unwrap();
    assert_eq!(fixture.take_single(7, take_args(400)), Some((1, 400)));
    assert!(!loaded.should_raise());
    assert_eq!(fixture.take_single(7, take_args(200)), Some((401, 600)));
    assert!(!loaded.try_begin_raise(), "a raise is under way");
}

/// Schedule: as in the test of batches in `withdrawn.rs`.
#[tokio::test]
async fn single_number_of_namespace_that_became_strict_is_discarded() {
    let fixture = FastPathFixture::new().await;
    fixture.become_strict_at_check();
    assert_eq!(fixture.take_single(7, take_args(2)), None);
    assert_eq!(
        (fixture.nexts_and_numbers(), fixture.discarded_count()),
        ((0, 0), 2)
    );
}
