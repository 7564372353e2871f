//! Schedules between taking and checking: answers that were taken or read are withdrawn.

use std::num::NonZeroU32;

use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1::CurrentKind;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::batch::item::{ItemOperation, RequestItem};
use crate::batch::request_context::RequestContext;
use crate::slow_path::miss_reason::MissReason;

/// The schedule of DESIGN 5.4: stopped between taking and checking for longer than the lease.
#[tokio::test]
async fn batch_numbers_taken_before_lease_end_are_discarded() {
    let fixture = FastPathFixture::new().await;
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).answers.values,
        [1; 4]
    );
    let clock = fixture.clock.clone();
    fixture.run_at_check(move || clock.ns.store(LEASE.as_nanos() as u64, Relaxed));
    let result = fixture.take_next(&uid_of_each_section());
    assert_eq!(result.missed, [0, 1, 2, 3]);
    assert!(result.answers.values.is_empty());
    assert_eq!(fixture.discarded_count(), 4);
    // The lease is known to have expired, so no more numbers are discarded.
    assert_eq!(fixture.take_next(&uid_of_each_section()).missed.len(), 4);
    assert_eq!(fixture.discarded_count(), 4);
    let now = fixture.clock.now();
    fixture.session.renew(Lease::new(now, LEASE));
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).answers.values,
        [3; 4]
    );
}

#[tokio::test]
async fn batch_numbers_of_ended_session_are_discarded() {
    let fixture = FastPathFixture::new().await;
    let (sections, session) = (fixture.sections.clone(), fixture.session.clone());
    fixture.run_at_check(move || drop(sections.end_session(&session)));
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).missed,
        [0, 1, 2, 3]
    );
    assert_eq!(fixture.discarded_count(), 4);
    // A new session never revives the old one's sections.
    let new = Arc::new(LeasedSession::new(SessionId(2)));
    new.renew(Lease::new(START, LEASE));
    fixture.current_session.replace(Some(new));
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).missed,
        [0, 1, 2, 3]
    );
    assert_eq!(fixture.discarded_count(), 4);
}

/// Schedule: the slot moves to another owner between taking and checking. Without the second read
/// of the table its numbers would be answered after the new owner's greater ones.
#[tokio::test]
async fn batch_numbers_of_moved_slot_are_discarded() {
    let fixture = FastPathFixture::new().await;
    let moved = fixture.slot_of_uid(uid_of_each_section()[1]);
    let hit: Vec<u64> = uid_of_each_section()
        .into_iter()
        .filter(|u| fixture.slot_of_uid(*u) != moved)
        .collect();
    assert!((1..4).contains(&hit.len()), "slots of the vectors changed");
    let table = fixture.table.clone();
    fixture.run_at_check(move || {
        let newer = table_delta(2, vec![owned_route(moved.0, 2, 2)]);
        assert!(table.apply(newer).unwrap());
    });
    let counted = NextManyRequest {
        uids: uid_of_each_section().to_vec(),
        counts: vec![5; 4],
        ..NextManyRequest::default()
    };
    let result = fixture.try_batch(counted);
    assert_eq!(result.answers.values, vec![1; hit.len()]);
    assert_eq!(result.answers.lasts, vec![5; hit.len()]);
    assert_eq!(result.missed.len(), 4 - hit.len());
    assert!(result.missed.contains(&1));
    assert_eq!(fixture.discarded_count(), 5 * result.missed.len() as u64);
    assert_eq!(
        fixture.fast_path.shared.counters.numbers_issued.get(),
        5 * hit.len() as u64
    );
    // From now on they are missed before anything is taken.
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).answers.values,
        vec![6; hit.len()]
    );
    assert_eq!(fixture.discarded_count(), 5 * result.missed.len() as u64);
    // After the slots have come back at a greater epoch, the old section objects are not used.
    let back = table_delta(3, vec![owned_route(moved.0, 1, 3)]);
    assert!(fixture.table.apply(back).unwrap());
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).missed,
        result.missed
    );
}

#[tokio::test]
async fn current_batch_passes_the_same_check() {
    let fixture = FastPathFixture::new().await;
    let read = |uids: &[u64]| {
        let request = CurrentManyRequest {
            uids: uids.to_vec(),
            ..CurrentManyRequest::default()
        };
        fixture.fast_path.try_batch(&BatchRequest::from(request))
    };
    let [a, b, ..] = uid_of_each_section();
    fixture.take_next(&[a, a, a]);
    let result = read(&[a, b, 4 * SECTION_SIZE]);
    let current = result.answers.into_current();
    let kinds: Vec<CurrentKind> = current.kinds().collect();
    assert_eq!(kinds, [CurrentKind::Exact, CurrentKind::Never]);
    assert_eq!((current.values, result.missed), (vec![3, 0], vec![2]));
    let untouched: Vec<u64> = (0..100).map(|n| b + n).collect();
    assert_eq!(read(&untouched).missed.len(), 100 - NEW_KEYS_MAX);

    let (table, moved) = (fixture.table.clone(), fixture.slot_of_uid(a));
    fixture.run_at_check(move || {
        let newer = table_delta(2, vec![owned_route(moved.0, 2, 2)]);
        assert!(table.apply(newer).unwrap());
    });
    assert_eq!(read(&[a]).missed, [0]);
    assert_eq!(read(&[a]).missed, [0], "another owner has it now");
    let clock = fixture.clock.clone();
    fixture.run_at_check(move || clock.ns.store(LEASE.as_nanos() as u64, Relaxed));
    assert_eq!(read(&uid_of_each_section()).missed.len(), 4);
}

/// Schedule: the node is cut off for more than D, while the namespace becomes strict; a call takes
/// numbers by the old table; then a renewal brings lease and table. By the new lease alone the
/// check would pass.
#[tokio::test]
async fn batch_numbers_of_namespace_that_became_strict_are_discarded() {
    let fixture = FastPathFixture::new().await;
    assert_eq!(
        fixture.take_next(&uid_of_each_section()).answers.values,
        [1; 4]
    );
    fixture.become_strict_at_check();
    let result = fixture.take_next(&uid_of_each_section());
    assert_eq!(result.missed, [0, 1, 2, 3]);
    assert!(result.answers.values.is_empty());
    assert_eq!(fixture.discarded_count(), 4);
    assert_eq!(fixture.fast_path.shared.counters.numbers_issued.get(), 4);
}

#[tokio::test]
async fn current_of_namespace_that_became_strict_is_missed() {
    let fixture = FastPathFixture::new().await;
    fixture.take_next(&uid_of_each_section());
    fixture.become_strict_at_check();
    let request = CurrentManyRequest {
        uids: uid_of_each_section().to_vec(),
        ..CurrentManyRequest::default()
    };
    assert_eq!(
        fixture
            .fast_path
            .try_batch(&BatchRequest::from(request))
            .missed,
        [0, 1, 2, 3]
    );
}

/// Schedule: as above, on the slow path. The number waits for a confirmation, as that of a strict
/// call.
#[tokio::test]
async fn slow_path_confirms_number_of_namespace_that_became_strict() {
    let fixture = FastPathFixture::new().await;
    fixture.become_strict_at_check();
    let call = RequestContext {
        namespace: String::new(),
        deadline: Instant::now() + LEASE,
        cluster: Default::default(),
        forwarded: false,
        table_version: 0,
        strict: false,
        share: None,
        trace: None,
        opens: Semaphore::new(1),
    };
    let operation = ItemOperation::Next {
        count: NonZeroU32::MIN,
        floor: 0,
    };
    let items = [RequestItem {
        key: KeyBuf::Uid(7),
        operation,
        epoch: 0,
    }];
    let table = fixture.table.load().unwrap();
    let mut answers = vec![None];
    let namespace = &table.namespaces()[0];
    let misses = fixture
        .slow_path
        .try_owned(&call, &table, namespace, &items, &[0], &mut answers);
    assert!(answers[0].is_none());
    assert!(matches!(misses[..], [(0, MissReason::ConfirmAnswer(..))]));
}
