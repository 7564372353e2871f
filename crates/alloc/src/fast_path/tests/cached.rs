//! The lookup cache: a section is never cached longer than it is in the map, and never served as it
//! was before.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::*;

const FIRST: SectionKey = SectionKey {
    namespace: NamespaceId(1),
    section: SectionId(0),
};

impl FastPathFixture {
    fn loaded_section(&self, section: SectionKey) -> Arc<LoadedSection> {
        self.sections.get(section).unwrap()
    }

    fn read_current(&self, uid: u64) -> Option<u64> {
        let batch = BatchRequest::from(CurrentManyRequest {
            uids: vec![uid],
            ..CurrentManyRequest::default()
        });
        self.fast_path
            .try_batch(&batch)
            .answers
            .values
            .first()
            .copied()
    }

    /// Returns the generations of a section that caches keep.
    fn cached_generations(&self, section: SectionKey) -> Vec<u64> {
        let kept = self.sections.caches.all().into_iter();
        let kept = kept.filter(|loaded| loaded.key() == section);
        kept.map(|loaded| loaded.generation.0).collect()
    }
}

/// Schedule: a section is closed and opened again, with and without a moment in which it is not
/// loaded.
#[tokio::test]
async fn lookup_cache_finds_reopened_section() {
    let fixture = FastPathFixture::new().await;
    fixture.take_next(&[5]);
    assert_eq!(fixture.take_next(&[5]).answers.values, [2]);
    assert_eq!(fixture.cached_generations(FIRST), [1]);
    assert!(fixture.sections.retire(&fixture.loaded_section(FIRST)));
    assert_eq!(fixture.take_next(&[5]).missed, [0], "not loaded");
    assert_eq!(fixture.read_current(5), None);
    fixture.publish_section(1, 0, 2, 1_000);
    assert_eq!(fixture.read_current(5), Some(1_000));
    fixture.take_next(&[5]);
    assert_eq!(fixture.take_next(&[5]).answers.values, [1_002]);
    assert_eq!(fixture.cached_generations(FIRST), [2]);
    fixture.publish_section(1, 0, 3, 2_000);
    assert_eq!(fixture.read_current(5), Some(2_000));
    fixture.take_next(&[5]);
    assert_eq!(fixture.take_next(&[5]).answers.values, [2_002]);
}

/// Schedule: a section is sealed, and taken out of the map a moment later.
#[tokio::test]
async fn sealed_cached_section_is_missed() {
    let fixture = FastPathFixture::new().await;
    fixture.take_next(&[5]);
    assert_eq!(fixture.read_current(5), Some(1));
    assert_eq!(fixture.cached_generations(FIRST), [1]);
    fixture.loaded_section(FIRST).section.seal();
    assert_eq!(fixture.read_current(5), None);
    assert_eq!(fixture.take_next(&[5]).missed, [0]);
}

/// Otherwise the memory of its counters would not be freed.
#[tokio::test]
async fn lookup_cache_forgets_retired_section() {
    let fixture = FastPathFixture::new().await;
    fixture.take_next(&uid_of_each_section());
    let second = SectionKey {
        section: SectionId(1),
        ..FIRST
    };
    assert_eq!(fixture.sections.caches.all().len(), 4);
    assert!(fixture.sections.retire(&fixture.loaded_section(FIRST)));
    assert!(fixture.cached_generations(FIRST).is_empty());
    fixture.publish_section(1, 1, 2, 1_000);
    assert!(fixture.cached_generations(second).is_empty());
    assert_eq!(fixture.sections.caches.all().len(), 2);
    fixture.sections.end_session(&fixture.session);
    assert!(fixture.sections.caches.all().is_empty());
}

/// Schedule: a newer table has moved slots; their objects are not taken out of the map yet.
#[tokio::test]
async fn lookup_cache_checks_section_again_after_newer_table() {
    let fixture = FastPathFixture::new().await;
    let uids = uid_of_each_section();
    fixture.take_next(&uids);
    let moved = fixture.slot_of_uid(uids[1]);
    let newer = table_delta(2, vec![owned_route(moved.0, 2, 2)]);
    assert!(fixture.table.apply(newer).unwrap());
    let here = |uid: &u64| fixture.slot_of_uid(*uid) != moved;
    let result = fixture.take_next(&uids);
    let missed: Vec<u32> = (0..4).filter(|i| !here(&uids[*i as usize])).collect();
    assert_eq!(result.missed, missed);
    assert!(result.answers.values.iter().all(|value| *value == 2));
}

/// Schedule: more threads than caches take numbers of a section that is closed and opened
/// repeatedly. Each thread gets rising numbers, and no cache keeps an object that was taken out of
/// the map.
#[tokio::test]
async fn lookup_cache_is_correct_under_many_threads() {
    const OPENINGS: u64 = 10_000;
    let fixture = FastPathFixture::new().await;
    let threads = 1 + std::thread::available_parallelism().map_or(1, usize::from);
    let (done, taken) = (AtomicBool::new(false), AtomicU64::new(0));
    let (cached, stale) = std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (fixture, done, taken) = (&fixture, &done, &taken);
            scope.spawn(move || {
                let mut last = 0;
                while !done.load(Relaxed) {
                    for value in fixture.take_next(&[thread]).answers.values {
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
                fixture.sections.retire(&fixture.loaded_section(FIRST));
                stale += fixture.cached_generations(FIRST).len();
            }
            fixture.publish_section(1, 0, generation, generation * 1_000);
            let object = fixture.loaded_section(FIRST);
            while object.section.numbers_remaining() > 998 && Instant::now() < deadline {
                std::thread::yield_now();
            }
            let kept = fixture.cached_generations(FIRST);
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
