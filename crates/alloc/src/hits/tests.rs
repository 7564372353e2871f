//! The hot path on a node whose table, session and sections are made by hand, and whose clock plays
//! the schedules: whatever the test wants to happen between taking and checking happens when the one
//! clock reading is made.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::Fence;
use seqsvr_core::geometry::uid_as_key;
use seqsvr_core::id::{ClusterId, Epoch, NamespaceId, SectionId, SectionKey, SessionId, Slot, Uid};
use seqsvr_core::lease::{Lease, Reading};
use seqsvr_core::namespace::{Namespace, Spec};
use seqsvr_core::route::{Delta, KeyRef, Owner, Route};
use seqsvr_core::section::{Open, Section};
use seqsvr_proto::v1::{CurrentKind, CurrentManyRequest, NextManyRequest};

use super::found::BLOCK;
use super::place::{DECIMAL_MAX, decimal};
use super::*;
use crate::loaded::Loaded;
use crate::{Alloc, Clock, Environment, Options};

mod cached;
mod one;

const SLOTS: u32 = 8;
const SECTION: u64 = 100_000;
const D: Duration = Duration::from_secs(3);
const START: Reading = Reading {
    main_ns: 0,
    raw_ns: 0,
};

/// Stands still; at its next reading it does what the test wants first.
#[derive(Default)]
struct Hooked {
    ns: AtomicU64,
    readings: AtomicU64,
    hook: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Clock for Hooked {
    fn now(&self) -> Reading {
        let hook = self.hook.lock().take();
        hook.into_iter().for_each(|hook| hook());
        self.readings.fetch_add(1, Relaxed);
        let ns = self.ns.load(Relaxed);
        Reading {
            main_ns: ns,
            raw_ns: ns,
        }
    }
}

fn route(slot: u16, session: u64, version: u64) -> (Slot, Route) {
    let owner = Owner {
        session: SessionId(session),
        name: format!("a{session}"),
        address: format!("127.0.0.1:{session}"),
    };
    let route = Route {
        epoch: Epoch(version),
        owner: Some(owner),
        version,
    };
    (Slot(slot), route)
}

fn delta(version: u64, routes: Vec<(Slot, Route)>) -> Delta {
    let namespaces = [Spec::default_dense(), Spec::default_keyed()];
    let namespaces = namespaces.into_iter().zip(1..).map(|(spec, id)| Namespace {
        id: NamespaceId(id),
        spec,
        version: 1,
    });
    Delta {
        cluster: ClusterId(1),
        base: version - 1,
        version,
        slot_count: SLOTS,
        namespaces: namespaces.filter(|_| version == 1).collect(),
        routes,
    }
}

struct World {
    node: Arc<Node>,
    clock: Arc<Hooked>,
    session: Arc<Session>,
    _alloc: Alloc,
}

impl World {
    /// A node that owns all slots at epoch 1 and has the first four sections of `default` and all of
    /// `keys` loaded.
    async fn new() -> World {
        let clock = Arc::new(Hooked::default());
        let environment = Environment {
            clock: clock.clone(),
            ..Environment::system()
        };
        // No store is there: nothing but the test changes the node.
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = Alloc::start_in(options, environment).await.unwrap();
        let node = alloc.node.clone();
        let session = Arc::new(Session::new(SessionId(1)));
        session.renew(Lease::new(START, D));
        node.session.store(Some(session.clone()));
        let all = (0..SLOTS as u16).map(|slot| route(slot, 1, 1)).collect();
        node.table.apply(delta(1, all)).unwrap();
        let world = World {
            node,
            clock,
            session,
            _alloc: alloc,
        };
        (0..4).for_each(|section| world.load(1, section));
        (0..4_096).for_each(|section| world.load(2, section));
        world
    }

    fn load(&self, namespace: u32, section: u32) {
        self.open(namespace, section, 1, 0);
    }

    /// Publishes a section as it is opened again and again.
    fn open(&self, namespace: u32, section: u32, generation: u64, base: u64) {
        let key = SectionKey {
            namespace: NamespaceId(namespace),
            section: SectionId(section),
        };
        let table = self.node.table.load().unwrap();
        let slot = table.slot_of(key);
        let fence = Fence {
            slot,
            epoch: table.route(slot).unwrap().epoch,
            section: key,
        };
        let open = Open {
            generation,
            base,
            max_seq: base + 1_000,
            first: Some(base + 1),
            stride: 1,
        };
        let section = match namespace {
            1 => Section::dense(open, SECTION as u32),
            _ => Section::keyed(open, [1, 2]),
        };
        let loaded = Loaded::new(fence, self.session.clone(), section, 1_000);
        self.node.sections.publish(loaded);
    }

    /// The slot of a uid's section.
    fn slot(&self, uid: u64) -> Slot {
        let table = self.node.table.load().unwrap();
        let namespace = &table.namespaces()[0];
        table.place(namespace, KeyRef::Uid(Uid(uid))).unwrap().1
    }

    fn at_the_check(&self, hook: impl FnOnce() + Send + 'static) {
        *self.clock.hook.lock() = Some(Box::new(hook));
    }

    fn next(&self, uids: &[u64]) -> Hits {
        self.hit(NextManyRequest {
            uids: uids.to_vec(),
            ..NextManyRequest::default()
        })
    }

    fn hit(&self, request: NextManyRequest) -> Hits {
        let frame = Frame::from(request);
        frame.check(10_000).unwrap();
        self.node.hit(&frame)
    }

    fn burned(&self) -> u64 {
        self.node.counters.burned.get()
    }
}

/// One uid of each of the four sections.
fn four() -> [u64; 4] {
    [0, 1, 2, 3].map(|section| section * SECTION + 7)
}

#[tokio::test]
async fn a_frame_is_answered_with_one_clock_reading() {
    let world = World::new().await;
    // Of 8 chunks of counters, made by a first touch of each.
    world.next(&[0, 1, 2, 3, 4, 5, 6, 7].map(|chunk| chunk * 1_024 + 1));
    let uids: Vec<u64> = (0..1_000).map(|i| i * 37 % 4_000 * 2).collect();
    for round in 1..=3 {
        let before = world.clock.readings.load(Relaxed);
        let hits = world.next(&uids);
        assert!(hits.missed.is_empty());
        assert_eq!(hits.columns.values, vec![round; 1_000]);
        assert!((0..1_000).all(|at| hits.columns.epoch(at) == 1));
        assert_eq!(world.clock.readings.load(Relaxed), before + 1);
    }
    // The same key several times in one frame.
    let hits = world.next(&[5, 5, 5, 0, 5]);
    assert_eq!(hits.columns.values, [1, 2, 3, 4, 4]);
    assert_eq!(world.node.counters.numbers.get(), 3_013);
    assert_eq!(
        (world.node.counters.nexts.get(), world.burned()),
        (3_013, 0)
    );
}

/// More sections than are kept for a frame, neighbouring items never of the same.
#[tokio::test]
async fn sections_of_one_place_take_turns_and_none_stays_entered() {
    let world = World::new().await;
    let apart = [0, 1_024, 1, 1_025, 2_048];
    for section in [1_024, 1_025, 2_048] {
        world.load(1, section);
    }
    let touch: Vec<u64> = apart.iter().map(|section| section * SECTION).collect();
    world.next(&touch);
    let uids: Vec<u64> = (0..1_000)
        .map(|i| apart[i % 5] * SECTION + i as u64 % 7)
        .collect();
    let hits = world.next(&uids);
    assert!(hits.missed.is_empty());
    let mut last = std::collections::HashMap::new();
    for (uid, value) in uids.iter().zip(&hits.columns.values) {
        let first = u64::from(touch.contains(uid));
        let last = last.entry(*uid).or_insert(first);
        assert_eq!(*value, *last + 1, "uid {uid}");
        *last = *value;
    }
    let map = world.node.sections.map.pin();
    for section in apart {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section as u32),
        };
        let loaded = map.get(&section).unwrap();
        loaded.section.seal();
        // The furthest of its uids: 1,000 items, a fifth of them here, a seventh of those each.
        assert!(
            loaded.section.final_seq().is_some_and(|last| last >= 28),
            "somebody is still inside"
        );
    }
    let missed = world.next(&uids[..5]).missed;
    assert_eq!(missed, [0, 1, 2, 3, 4], "all are sealed");
}

fn frame(uids: &[u64]) -> Frame {
    Frame::from(NextManyRequest {
        uids: uids.to_vec(),
        ..NextManyRequest::default()
    })
}

/// Frames of both kinds and both namespaces, over the same sections.
fn together() -> [Frame; 4] {
    let keys = NextManyRequest {
        keys: vec!["alice".into(), "bob".into()],
        ..NextManyRequest::default()
    };
    let current = CurrentManyRequest {
        uids: four().to_vec(),
        ..CurrentManyRequest::default()
    };
    [
        frame(&four()),
        Frame::from(keys),
        Frame::from(current),
        frame(&four()[1..]),
    ]
}

#[tokio::test]
async fn frames_that_came_together_are_answered_with_one_clock_reading() {
    let world = World::new().await;
    world.next(&four());
    let before = world.clock.readings.load(Relaxed);
    let all = world.node.hit_all(&together());
    assert_eq!(world.clock.readings.load(Relaxed), before + 1);
    let values: Vec<&[u64]> = all.iter().map(|hits| &*hits.columns.values).collect();
    assert_eq!(values, [&[2; 4][..], &[1; 2], &[2; 4], &[3; 3]]);
    assert!(all.iter().all(|hits| hits.missed.is_empty()));
    let counters = &world.node.counters;
    assert_eq!((counters.nexts.get(), counters.numbers.get()), (13, 13));
}

#[tokio::test]
async fn frames_that_came_together_are_withdrawn_together() {
    let world = World::new().await;
    let clock = world.clock.clone();
    world.at_the_check(move || clock.ns.store(D.as_nanos() as u64, Relaxed));
    let all = world.node.hit_all(&together());
    let missed: Vec<usize> = all.iter().map(|hits| hits.missed.len()).collect();
    assert_eq!(missed, [4, 2, 4, 3]);
    assert_eq!(world.burned(), 9, "what was only read is not burned");

    let world = World::new().await;
    let moved = world.slot(four()[1]);
    let node = world.node.clone();
    world.at_the_check(move || {
        let newer = delta(2, vec![route(moved.0, 2, 2)]);
        assert!(node.table.apply(newer).unwrap());
    });
    let all = world.node.hit_all(&together());
    let gone = |uids: &[u64]| -> Vec<u32> {
        let uids = (0..).zip(uids);
        let gone = uids.filter(|(_, uid)| world.slot(**uid) == moved);
        gone.map(|(i, _)| i).collect()
    };
    let (first, last) = (gone(&four()), gone(&four()[1..]));
    assert!(last.contains(&0));
    let burned = first.len() + all[1].missed.len() + last.len();
    assert_eq!((&all[0].missed, &all[3].missed), (&first, &last));
    assert_eq!(all[2].missed.len(), 4, "asked again");
    assert_eq!(world.burned(), burned as u64);
}

/// Windows are looked at once a section, when it is left, and of one whose place another has with each
/// number.
#[tokio::test]
async fn each_section_that_numbers_were_taken_of_is_refilled() {
    let world = World::new().await;
    world.load(1, 1_024);
    let touched = [0, 1_024 * SECTION, SECTION];
    world.next(&touched);
    // Of so many items that sections 0 and 1,024 share a place; whole blocks of each.
    let mut uids = vec![0; 5 * BLOCK];
    uids.extend([1_024 * SECTION; 5 * BLOCK]);
    uids.push(SECTION);
    let hits = world.hit(NextManyRequest {
        counts: vec![2; uids.len()],
        uids,
        ..NextManyRequest::default()
    });
    assert!(hits.missed.is_empty());
    let map = world.node.sections.pin();
    let raising = [0, 1_024, 1].map(|section| {
        let section = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section),
        };
        let loaded = map.get(&section).unwrap();
        // Half of the window is used, and the raise has begun that comes of it.
        loaded.section.left() <= 500 && !loaded.begin_raise()
    });
    assert_eq!(raising, [true, true, false]);
}

#[tokio::test]
async fn of_keys_nobody_touched_some_take_the_long_way() {
    let world = World::new().await;
    let keys = |from: usize, to: usize| NextManyRequest {
        keys: (from..to).map(|n| n.to_string().into()).collect(),
        ..NextManyRequest::default()
    };
    assert_eq!(world.hit(keys(0, UNTOUCHED_MAX)).missed.len(), 0);
    let hits = world.hit(keys(0, 300));
    assert_eq!(hits.columns.values.len(), 2 * UNTOUCHED_MAX);
    assert_eq!(hits.missed.first(), Some(&(2 * UNTOUCHED_MAX as u32)));
    assert_eq!(hits.missed.len(), 300 - 2 * UNTOUCHED_MAX);
}

#[tokio::test]
async fn a_frame_of_sections_that_are_not_loaded_is_not_searched_to_its_end() {
    let world = World::new().await;
    let [a, ..] = four();
    let vain = 50_000_000..;
    let mixed = |n: usize| vain.clone().take(n).chain([a]).collect::<Vec<u64>>();
    let few = world.next(&mixed(MISSED_MAX - 1));
    assert_eq!(
        (few.missed.len(), few.columns.values),
        (MISSED_MAX - 1, vec![1])
    );
    let many = world.next(&mixed(3 * MISSED_MAX));
    assert_eq!(many.missed.len(), 3 * MISSED_MAX + 1);
    assert!(many.columns.values.is_empty());
    let current = Frame::from(CurrentManyRequest {
        uids: mixed(3 * MISSED_MAX),
        ..CurrentManyRequest::default()
    });
    assert_eq!(world.node.hit(&current).missed.len(), 3 * MISSED_MAX + 1);
    assert_eq!(world.next(&[a]).columns.values, [2], "nothing was taken");
    // What memory holds of a Pipe's frame waits for nobody else's section.
    let of_many = world
        .node
        .hit_all(&[frame(&mixed(3 * MISSED_MAX))])
        .remove(0);
    assert_eq!(of_many.columns.values, [3]);
}

#[tokio::test]
async fn keys_and_their_decimal_texts_are_one() {
    let world = World::new().await;
    let texts = ["alice", "42", "0", "18446744073709551615"];
    let keys = NextManyRequest {
        keys: texts.iter().map(|key| key.as_bytes().into()).collect(),
        ..NextManyRequest::default()
    };
    assert_eq!(world.hit(keys.clone()).columns.values, [1, 1, 1, 1]);
    let uids = NextManyRequest {
        namespace: "keys".into(),
        uids: vec![42, 0, u64::MAX],
        ..NextManyRequest::default()
    };
    assert_eq!(world.hit(uids).columns.values, [2, 2, 2]);
    assert_eq!(world.hit(keys).columns.values, [2, 3, 3, 3]);
}

/// The schedule of DESIGN 5.4: stopped between taking and checking for longer than the lease.
#[tokio::test]
async fn numbers_taken_before_the_lease_ran_out_are_not_answered_after() {
    let world = World::new().await;
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
    let world = World::new().await;
    let (node, session) = (world.node.clone(), world.session.clone());
    world.at_the_check(move || drop(node.sections.end_session(&session)));
    assert_eq!(world.next(&four()).missed, [0, 1, 2, 3]);
    assert_eq!(world.burned(), 4);
    // A new session never revives the old one's sections.
    let new = Arc::new(Session::new(SessionId(2)));
    new.renew(Lease::new(START, D));
    world.node.session.store(Some(new));
    assert_eq!(world.next(&four()).missed, [0, 1, 2, 3]);
    assert_eq!(world.burned(), 4);
}

/// The slot goes to another owner between taking and checking: without the second look at the table
/// its numbers would be answered after the new owner's greater ones.
#[tokio::test]
async fn numbers_of_a_slot_that_moved_meanwhile_are_not_answered() {
    let world = World::new().await;
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
async fn what_is_not_as_usual_is_missed_and_costs_nothing() {
    let world = World::new().await;
    let [a, b, ..] = four();
    let of = |request: NextManyRequest| {
        let request = NextManyRequest {
            uids: vec![a, b],
            ..request
        };
        world.hit(request).missed
    };
    let request = NextManyRequest::default;
    assert_eq!(
        of(NextManyRequest {
            epochs: vec![2],
            ..request()
        }),
        [0, 1]
    );
    assert_eq!(
        of(NextManyRequest {
            epochs: vec![0, 2],
            ..request()
        }),
        [1]
    );
    assert_eq!(
        of(NextManyRequest {
            strict: true,
            ..request()
        }),
        [0, 1]
    );
    assert_eq!(
        of(NextManyRequest {
            counts: vec![1, 0],
            ..request()
        }),
        [1]
    );
    assert_eq!(
        of(NextManyRequest {
            counts: vec![100_001, 1],
            ..request()
        }),
        [0]
    );
    assert_eq!(
        of(NextManyRequest {
            namespace: "none".into(),
            ..request()
        }),
        [0, 1]
    );
    assert_eq!(world.next(&[4 * SECTION, a, 1 << 40]).missed, [0, 2]);
    assert_eq!(world.burned(), 0);
    // Past the window's end: the rest of the window stays for others.
    assert_eq!(
        of(NextManyRequest {
            counts: vec![1, 5_000],
            ..request()
        }),
        [1]
    );
    assert_eq!(world.burned(), 0);
    world.next(&[a, b]);
    assert_eq!(
        of(NextManyRequest {
            floors: vec![0, 900],
            ..request()
        }),
        [1]
    );
    assert_eq!(world.burned(), 0);
    let seen = world.next(&[a, b]).columns.values;
    let next = world.hit(NextManyRequest {
        uids: vec![a, b],
        floors: seen.clone(),
        ..request()
    });
    let above: Vec<u64> = seen.iter().map(|n| n + 1).collect();
    assert_eq!(next.columns.values, above, "a true floor is as usual");
    let frame: Vec<u64> = (100..=100 + FRAME_MAX as u64).map(|n| n % 1_000).collect();
    assert_eq!(world.next(&frame).missed.len(), FRAME_MAX + 1);
    assert_eq!(world.next(&frame[1..]).missed.len(), 0, "as many as fit");
}

#[test]
fn decimals_are_the_contracts() {
    for uid in [0, 7, 10, 909, u64::MAX - 1, u64::MAX].map(Uid) {
        let mut text = [0; DECIMAL_MAX];
        assert_eq!(decimal(uid, &mut text), uid_as_key(uid).as_bytes());
    }
}

#[tokio::test]
async fn current_is_answered_by_the_same_check() {
    let world = World::new().await;
    let ask = |uids: &[u64]| {
        let request = CurrentManyRequest {
            uids: uids.to_vec(),
            ..CurrentManyRequest::default()
        };
        world.node.hit(&Frame::from(request))
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
