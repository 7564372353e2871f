//! Sections found lately are kept beside the map: never longer than they are in it, and never told
//! of what they were.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::*;

const FIRST: SectionKey = SectionKey {
    namespace: NamespaceId(1),
    section: SectionId(0),
};

impl FastPathFixture {
    fn object(&self, section: SectionKey) -> Arc<LoadedSection> {
        self.node.sections.get(section).unwrap()
    }

    fn current(&self, uid: u64) -> Option<u64> {
        let frame = BatchRequest::from(CurrentManyRequest {
            uids: vec![uid],
            ..CurrentManyRequest::default()
        });
        self.node.hit(&frame).columns.values.first().copied()
    }

    /// Generations of a section that caches keep.
    fn cached(&self, section: SectionKey) -> Vec<u64> {
        let kept = self.node.sections.caches.all().into_iter();
        let kept = kept.filter(|loaded| loaded.key() == section);
        kept.map(|loaded| loaded.generation.0).collect()
    }
}

/// A section is closed and opened again, with and without a moment in which it is not loaded.
#[tokio::test]
async fn a_section_opened_again_is_found_as_it_is_now() {
    let world = FastPathFixture::new().await;
    world.next(&[5]);
    assert_eq!(world.next(&[5]).columns.values, [2]);
    assert_eq!(world.cached(FIRST), [1]);
    assert!(world.node.sections.retire(&world.object(FIRST)));
    assert_eq!(world.next(&[5]).missed, [0], "not loaded");
    assert_eq!(world.current(5), None);
    world.open(1, 0, 2, 1_000);
    assert_eq!(world.current(5), Some(1_000));
    world.next(&[5]);
    assert_eq!(world.next(&[5]).columns.values, [1_002]);
    assert_eq!(world.cached(FIRST), [2]);
    world.open(1, 0, 3, 2_000);
    assert_eq!(world.current(5), Some(2_000));
    world.next(&[5]);
    assert_eq!(world.next(&[5]).columns.values, [2_002]);
}

/// Who closes a section seals it, and takes it out a moment later.
#[tokio::test]
async fn of_a_sealed_section_nothing_is_told() {
    let world = FastPathFixture::new().await;
    world.next(&[5]);
    assert_eq!(world.current(5), Some(1));
    assert_eq!(world.cached(FIRST), [1]);
    world.object(FIRST).section.seal();
    assert_eq!(world.current(5), None);
    assert_eq!(world.next(&[5]).missed, [0]);
}

/// Or the memory of its counters would be held.
#[tokio::test]
async fn what_was_taken_out_is_not_kept() {
    let world = FastPathFixture::new().await;
    world.next(&four());
    let second = SectionKey {
        section: SectionId(1),
        ..FIRST
    };
    assert_eq!(world.node.sections.caches.all().len(), 4);
    assert!(world.node.sections.retire(&world.object(FIRST)));
    assert!(world.cached(FIRST).is_empty());
    world.open(1, 1, 2, 1_000);
    assert!(world.cached(second).is_empty());
    assert_eq!(world.node.sections.caches.all().len(), 2);
    world.node.sections.end_session(&world.session);
    assert!(world.node.sections.caches.all().is_empty());
}

/// A newer table tells that slots have moved; the objects are not taken out yet.
#[tokio::test]
async fn what_was_current_by_an_older_table_is_looked_at_again() {
    let world = FastPathFixture::new().await;
    let uids = four();
    world.next(&uids);
    let moved = world.slot(uids[1]);
    let newer = delta(2, vec![route(moved.0, 2, 2)]);
    assert!(world.node.table.apply(newer).unwrap());
    let here = |uid: &u64| world.slot(*uid) != moved;
    let hits = world.next(&uids);
    let missed: Vec<u32> = (0..4).filter(|i| !here(&uids[*i as usize])).collect();
    assert_eq!(hits.missed, missed);
    assert!(hits.columns.values.iter().all(|value| *value == 2));
}

/// More threads than caches take numbers of a section that is closed and opened all the while: each
/// finds greater ones all the time, and once an object was taken out no cache has it any more.
#[tokio::test]
async fn sections_come_and_go_under_many_threads() {
    const OPENINGS: u64 = 10_000;
    let world = FastPathFixture::new().await;
    let threads = 1 + std::thread::available_parallelism().map_or(1, usize::from);
    let (done, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let (cached, stale) = std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (world, done, taken) = (&world, &done, &taken);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Relaxed) {
                    for value in world.next(&[thread]).columns.values {
                        assert!(value > last, "{value} after {last}");
                        last = value;
                        taken.fetch_add(1, Relaxed);
                    }
                    std::thread::yield_now();
                }
            });
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let (mut cached, mut stale) = (0, 0);
        for generation in 2..OPENINGS {
            if generation % 2 == 0 {
                world.node.sections.retire(&world.object(FIRST));
                stale += world.cached(FIRST).len();
            }
            world.open(1, 0, generation, generation * 1_000);
            let object = world.object(FIRST);
            while object.section.left() > 998 && Instant::now() < deadline {
                std::thread::yield_now();
            }
            let kept = world.cached(FIRST);
            stale += kept.iter().filter(|kept| **kept < generation).count();
            cached += kept.len() as u64;
        }
        done.store(true, Relaxed);
        (cached, stale)
    });
    assert_eq!(stale, 0, "kept though taken out");
    assert!(cached >= OPENINGS / 2, "kept only {cached} times");
    assert!(taken.load(Relaxed) >= OPENINGS, "too little was taken");
}
