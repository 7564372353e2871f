//! Cost of encoding and decoding an id, next to the least it could cost: shifts by constants.
//!
//! `cargo bench -p seqsvr-ids`; compare within one run only. `bare` is the yardstick of each group.

#![expect(
    clippy::expect_used,
    reason = "a preset that does not exist is a mistake of the bench"
)]

use std::hint::black_box;

use divan::Bencher;
use divan::counter::ItemsCount;
use seqsvr_ids::codec::{IdCodec, IdParts};
use seqsvr_ids::presets::find_preset;

/// Ids of one round.
const COUNT: usize = 1_000;
/// A layout of two levels, one in 10 ms, and one of 64 bits.
const LAYOUTS: [&str; 3] = ["twitter", "sonyflake", "crate:snowflaked"];

fn main() {
    divan::main();
}

fn codec_of(preset: &str) -> IdCodec {
    let scheme = find_preset(preset).expect("no such preset").scheme(None);
    scheme.expect("no epoch").codec().clone()
}

/// Returns parts that fit each of the layouts.
fn parts() -> Vec<IdParts> {
    let parts = |i: usize| IdParts {
        tick: 500_000_000_000 + i as u64 / 7,
        worker: i as u32 % 32,
        seq: i as u32 % 256,
        ..IdParts::default()
    };
    (0..COUNT).map(parts).collect()
}

#[divan::bench(args = LAYOUTS)]
fn encode(bencher: Bencher<'_, '_>, preset: &str) {
    let (codec, parts) = (codec_of(preset), parts());
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for parts in black_box(&parts) {
            black_box(codec.encode(parts).unwrap_or_default());
        }
    });
}

#[divan::bench(args = LAYOUTS)]
fn decode(bencher: Bencher<'_, '_>, preset: &str) {
    let codec = codec_of(preset);
    let encode = |parts: &IdParts| codec.encode(parts).expect("parts do not fit");
    let ids: Vec<u64> = parts().iter().map(encode).collect();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for id in black_box(&ids) {
            black_box(codec.decode(*id).unwrap_or_default());
        }
    });
}

#[divan::bench]
fn encode_bare(bencher: Bencher<'_, '_>) {
    let parts = parts();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for p in black_box(&parts) {
            let (worker, seq) = (u64::from(p.worker), u64::from(p.seq));
            black_box(p.tick << 22 | worker << 12 | seq);
        }
    });
}

#[divan::bench]
fn decode_bare(bencher: Bencher<'_, '_>) {
    let ids: Vec<u64> = (0..COUNT as u64).map(|i| i << 17 | i).collect();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for id in black_box(&ids) {
            black_box((id >> 22, id >> 12 & 1_023, id & 4_095));
        }
    });
}
