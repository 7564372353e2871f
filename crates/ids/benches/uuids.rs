//! Cost of UUIDs of version 7, next to the generator of the crate `uuid`.
//!
//! `cargo bench -p seqsvr-ids --bench uuids`; compare within one run only. `crate_v7` is the
//! yardstick. Both read the clock of the system and draw from a generator of each thread.

#![expect(
    clippy::disallowed_methods,
    reason = "both sides of the comparison read the wall clock"
)]

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use divan::Bencher;
use divan::counter::ItemsCount;
use rand::Rng;
use seqsvr_ids::uuids::{Uuid, UuidV7Generator, make_v4};

const THREADS: [usize; 2] = [1, 2];
const BATCH: u64 = 1_000;

fn main() {
    divan::main();
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[divan::bench(threads = THREADS)]
fn crate_v7(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box(Uuid::now_v7());
        }
    });
}

#[divan::bench(threads = THREADS)]
fn v7(bencher: Bencher<'_, '_>) {
    let generator = UuidV7Generator::default();
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        let mut rng = rand::rng();
        for _ in 0..BATCH {
            black_box(generator.make(now(), || rng.next_u64()));
        }
    });
}

#[divan::bench(threads = THREADS)]
fn v4(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        let mut rng = rand::rng();
        for _ in 0..BATCH {
            black_box(make_v4(|| rng.next_u64()));
        }
    });
}
