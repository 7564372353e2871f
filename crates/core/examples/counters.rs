//! Takes numbers a given number of times in one way, for a tool that counts instructions.
//!
//! `cargo xtask count-instructions` runs it. `counters WAY FRAMES`: WAY is `one-by-one`,
//! `in-blocks` or `keyed`, and a frame takes 1,024 numbers.

#![expect(
    clippy::expect_used,
    reason = "a program of a developer: it may end with a panic"
)]

use std::hint::black_box;
use std::num::NonZeroU32;

use seqsvr_core::section::{CounterKey, CounterRef, Section, SectionGrant};

const ONE: NonZeroU32 = NonZeroU32::MIN;
const FRAME: u32 = 1_024;
/// Items looked up together, as the hot path does.
const BLOCK: u32 = 64;
/// Keys of the section.
const KEYS: u32 = 10_000;
/// Odd and above the keys, so that each comes up once in a round.
const STEP: u32 = 48_271;

fn main() {
    let mut args = std::env::args().skip(1);
    let (way, frames) = (args.next(), args.next());
    let way = way.expect("usage: counters WAY FRAMES");
    let frames: u32 = frames
        .and_then(|n| n.parse().ok())
        .expect("FRAMES is a number");
    let open = SectionGrant {
        generation: 1,
        base: 0,
        max_seq: 1 << 30,
        first: Some(1),
        stride: 1,
    };
    assert!(
        ["one-by-one", "in-blocks", "keyed"].contains(&way.as_str()),
        "WAY is one-by-one, in-blocks or keyed, not {way}"
    );
    let keyed = way == "keyed";
    let section = match keyed {
        true => Section::keyed(open, [1, 2]),
        false => Section::dense(open, KEYS),
    };
    let texts: Vec<String> = (0..KEYS).map(|i| format!("{i:020}")).collect();
    let key = |i: u32| match keyed {
        true => CounterKey::Keyed(texts[i as usize].as_bytes()),
        false => CounterKey::Dense(i),
    };
    let next = |key| {
        black_box(section.next(key, ONE).is_ok());
    };
    (0..KEYS).map(key).for_each(next);
    for frame in 0..frames {
        let at = |i: u32| key((frame * FRAME + i) % KEYS * STEP % KEYS);
        if way == "one-by-one" {
            (0..FRAME).map(at).for_each(next);
            continue;
        }
        for begin in (0..FRAME).step_by(BLOCK as usize) {
            let block = begin..begin + BLOCK;
            let mut sought = [None; BLOCK as usize];
            for (sought, i) in sought.iter_mut().zip(block) {
                *sought = section.prepare_lookup(at(i));
            }
            let each = sought.iter().flatten();
            black_box(each.fold(0, |sum, sought| sum | section.prefetch_entry(*sought)));
            let spots = sought.map(|sought| section.find_counter(sought?));
            let found = || spots.iter().flatten();
            black_box(found().fold(0, |sum, spot| sum | CounterRef::prefetch_counter(spot)));
            found().for_each(|spot| {
                black_box(spot.next(ONE).is_ok());
            });
        }
    }
}
