#!/usr/bin/env bash
# crate snowflaker 0.3.6: a clock that is 5 ms behind is an error, one that is an
# hour behind is not; threads repeat ids, and worker 40 is taken.
#
# Guess: an error for each set-back beyond a tolerance of some milliseconds; a
# generator of atomics behind `&self`, which can be shared, gives each caller an
# id of its own; a worker number of 5 bits is checked.
# Seen: the tolerance is the wrong way round: a set-back of up to 8 ms is waited
# for and then an error, a greater one is not looked at. Two threads read and
# write the sequence in separate steps: in 400,000 ids of two threads some are
# equal. The constructor checks the data center twice and the worker never:
# worker 40 of data center 1 stamps the bits of worker 8.
# Why it matters: ids of an hour ago are made again after a large correction of
# the clock, just the case that the error is there for.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat >Cargo.toml <<'END'
[package]
name = "run"
version = "0.0.0"
edition = "2021"

[dependencies]
snowflaker = "=0.3.6"
END
cat >src/main.rs <<'END'
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static NOW_MS: AtomicI64 = AtomicI64::new(1_800_000_000_000);

#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanos: i64,
}

/// Takes the place of the function of the C library: the clock of this program.
#[no_mangle]
pub extern "C" fn clock_gettime(_: i32, time: *mut Timespec) -> i32 {
    let now = NOW_MS.load(Relaxed);
    let (seconds, nanos) = (now / 1000, now % 1000 * 1_000_000);
    unsafe { time.write(Timespec { seconds, nanos }) };
    0
}

use snowflaker::generator::{Generator, SnowflakeGenerator};
use std::collections::HashSet;

fn main() {
    let generator = SnowflakeGenerator::new(1, 5).unwrap();
    for back_ms in [5, 8, 9, 3_600_000] {
        generator.next_id().unwrap();
        NOW_MS.fetch_sub(back_ms, Relaxed);
        let answer = generator.next_id().map(|_| "an id").map_err(|e| e.to_string());
        println!("set back by {back_ms} ms: {answer:?}");
        NOW_MS.fetch_add(back_ms, Relaxed);
    }

    let forty = SnowflakeGenerator::new(1, 40).unwrap().next_id().unwrap();
    println!("data center 1, worker 40: {}, {}", forty >> 17 & 31, forty >> 12 & 31);

    // The clock moves for the threads.
    let done = std::sync::atomic::AtomicBool::new(false);
    let ids: Vec<u64> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Relaxed) {
                NOW_MS.fetch_add(1, Relaxed);
                std::thread::yield_now();
            }
        });
        let take = || (0..200_000).map(|_| generator.next_id().unwrap()).collect::<Vec<u64>>();
        let threads = [scope.spawn(take), scope.spawn(take)];
        let ids = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        done.store(true, Relaxed);
        ids
    });
    let distinct: HashSet<&u64> = ids.iter().collect();
    println!("ids of two threads {}, some are equal: {}", ids.len(), distinct.len() < ids.len());
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >seen.txt
diff -u - seen.txt <<'END'
set back by 5 ms: Err("Clock moved backwards. Refusing to generate id")
set back by 8 ms: Err("Clock moved backwards. Refusing to generate id")
set back by 9 ms: Ok("an id")
set back by 3600000 ms: Ok("an id")
data center 1, worker 40: 1, 8
ids of two threads 400000, some are equal: true
END
