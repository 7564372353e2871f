//! The schedules between taking and checking: what was taken, or read, is not answered.

use std::num::NonZeroU32;

use seqsvr_proto::v1::CurrentKind;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::*;
use crate::ask::{ItemOperation, MissReason, OwnedKey, RequestContext, RequestItem};

/// The schedule of DESIGN 5.4: stopped between taking and checking for longer than the lease.
#[tokio::test]
async fn numbers_taken_before_the_lease_ran_out_are_not_answered_after() {
    let world = FastPathFixture::new().await;
    assert_eq!(world.next(&four()).columns.values, [1; 4]);
    let clock = world.clock.clone();
    world.at_the_check(move || clock.ns.store(D.as_nanos() as u64, Relaxed));
    let hits = world.next(&four());
    assert_eq!(hits.missed, [0, 1, 2, 3]);
    assert!(hits.columns.values.is_empty());
    assert_eq!(world.burned(), 4);
    // Known to be over, it burns no more.
    assert_eq!(world.next(&four()).missed.len(), 4);
    assert_eq!(world.burned(), 4);
    let now = world.clock.now();
    world.session.renew(Lease::new(now, D));
    assert_eq!(world.next(&four()).columns.values, [3; 4]);
}

#[tokio::test]
async fn numbers_of_a_session_that_ended_meanwhile_are_not_answered() {
    let world = FastPathFixture::new().await;
    let (node, session) = (world.node.clone(), world.session.clone());
    world.at_the_check(move || drop(node.sections.end_session(&session)));
    assert_eq!(world.next(&four()).missed, [0, 1, 2, 3]);
    assert_eq!(world.burned(), 4);
    // A new session never revives the old one's sections.
    let new = Arc::new(LeasedSession::new(SessionId(2)));
    new.renew(Lease::new(START, D));
    world.node.session.store(Some(new));
    assert_eq!(world.next(&four()).missed, [0, 1, 2, 3]);
    assert_eq!(world.burned(), 4);
}

/// The slot goes to another owner between taking and checking: without the second look at the table
/// its numbers would be answered after the new owner's greater ones.
#[tokio::test]
async fn numbers_of_a_slot_that_moved_meanwhile_are_not_answered() {
    let world = FastPathFixture::new().await;
    let moved = world.slot(four()[1]);
    let hit: Vec<u64> = four()
        .into_iter()
        .filter(|u| world.slot(*u) != moved)
        .collect();
    assert!((1..4).contains(&hit.len()), "slots of the vectors changed");
    let node = world.node.clone();
    world.at_the_check(move || {
        let newer = delta(2, vec![route(moved.0, 2, 2)]);
        assert!(node.table.apply(newer).unwrap());
    });
    let counted = NextManyRequest {
        uids: four().to_vec(),
        counts: vec![5; 4],
        ..NextManyRequest::default()
    };
    let hits = world.hit(counted);
    assert_eq!(hits.columns.values, vec![1; hit.len()]);
    assert_eq!(hits.columns.lasts, vec![5; hit.len()]);
    assert_eq!(hits.missed.len(), 4 - hit.len());
    assert!(hits.missed.contains(&1));
    assert_eq!(world.burned(), 5 * hits.missed.len() as u64);
    assert_eq!(world.node.counters.numbers.get(), 5 * hit.len() as u64);
    // From now on they are missed before anything is taken.
    assert_eq!(world.next(&four()).columns.values, vec![6; hit.len()]);
    assert_eq!(world.burned(), 5 * hits.missed.len() as u64);
    // Back at a greater epoch, the old section objects stay out of use.
    let back = delta(3, vec![route(moved.0, 1, 3)]);
    assert!(world.node.table.apply(back).unwrap());
    assert_eq!(world.next(&four()).missed, hits.missed);
}

#[tokio::test]
async fn current_is_answered_by_the_same_check() {
    let world = FastPathFixture::new().await;
    let ask = |uids: &[u64]| {
        let request = CurrentManyRequest {
            uids: uids.to_vec(),
            ..CurrentManyRequest::default()
        };
        world.node.hit(&BatchRequest::from(request))
    };
    let [a, b, ..] = four();
    world.next(&[a, a, a]);
    let hits = ask(&[a, b, 4 * SECTION]);
    let current = hits.columns.into_current();
    let kinds: Vec<CurrentKind> = current.kinds().collect();
    assert_eq!(kinds, [CurrentKind::Exact, CurrentKind::Never]);
    assert_eq!((current.values, hits.missed), (vec![3, 0], vec![2]));
    let untouched: Vec<u64> = (0..100).map(|n| b + n).collect();
    assert_eq!(ask(&untouched).missed.len(), 100 - UNTOUCHED_MAX);

    let (node, moved) = (world.node.clone(), world.slot(a));
    world.at_the_check(move || {
        let newer = delta(2, vec![route(moved.0, 2, 2)]);
        assert!(node.table.apply(newer).unwrap());
    });
    assert_eq!(ask(&[a]).missed, [0]);
    assert_eq!(ask(&[a]).missed, [0], "it is somebody else's now");
    let clock = world.clock.clone();
    world.at_the_check(move || clock.ns.store(D.as_nanos() as u64, Relaxed));
    assert_eq!(ask(&four()).missed.len(), 4);
}

/// Schedule: cut off for more than D, while the namespace becomes strict; a call takes numbers by
/// the old table; then a renewal brings lease and table. By the new lease alone the check would
/// pass.
#[tokio::test]
async fn numbers_of_a_namespace_that_became_strict_meanwhile_are_not_answered() {
    let world = FastPathFixture::new().await;
    assert_eq!(world.next(&four()).columns.values, [1; 4]);
    world.strict_at_the_check();
    let hits = world.next(&four());
    assert_eq!(hits.missed, [0, 1, 2, 3]);
    assert!(hits.columns.values.is_empty());
    assert_eq!(world.burned(), 4);
    assert_eq!(world.node.counters.numbers.get(), 4);
}

#[tokio::test]
async fn a_number_read_of_a_namespace_that_became_strict_meanwhile_is_not_answered() {
    let world = FastPathFixture::new().await;
    world.next(&four());
    world.strict_at_the_check();
    let request = CurrentManyRequest {
        uids: four().to_vec(),
        ..CurrentManyRequest::default()
    };
    assert_eq!(
        world.node.hit(&BatchRequest::from(request)).missed,
        [0, 1, 2, 3]
    );
}

/// The same schedule on the long way: the number waits for a confirmation, as one of a strict call.
#[tokio::test]
async fn the_long_way_sees_that_a_namespace_became_strict_meanwhile() {
    let world = FastPathFixture::new().await;
    world.strict_at_the_check();
    let call = RequestContext {
        namespace: String::new(),
        deadline: Instant::now() + D,
        cluster: Default::default(),
        forwarded: false,
        table_version: 0,
        strict: false,
        share: None,
        trace: None,
        opens: Semaphore::new(1),
    };
    let ask = ItemOperation::Next {
        count: NonZeroU32::MIN,
        floor: 0,
    };
    let items = [RequestItem {
        key: OwnedKey::Uid(7),
        ask,
        epoch: 0,
    }];
    let table = world.node.table.load().unwrap();
    let mut answers = vec![None];
    let namespace = &table.namespaces()[0];
    let misses = world
        .node
        .pass(&call, &table, namespace, &items, &[0], &mut answers);
    assert!(answers[0].is_none());
    assert!(matches!(misses[..], [(0, MissReason::ConfirmAnswer(..))]));
}
