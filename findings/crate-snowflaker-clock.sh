#!/usr/bin/env bash
# crate snowflaker 0.3.6: it waits for a clock that is 5 ms behind, and makes ids
# of the past with one that is an hour behind.
#
# Guess: small set-backs are waited for and greater ones are an error, as the
# message "Clock moved backwards. Refusing to generate id" says.
# Seen: a set-back of up to 8 ms is waited for, with an error if that does not
# help; a greater one is not looked at.
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

/// Takes the place of the function of the C library: a sleep moves the clock.
#[no_mangle]
pub extern "C" fn clock_nanosleep(_: i32, _: i32, time: &Timespec, _: *mut Timespec) -> i32 {
    NOW_MS.fetch_add(time.seconds * 1000 + time.nanos / 1_000_000, Relaxed);
    0
}

#[no_mangle]
pub extern "C" fn nanosleep(time: &Timespec, rest: *mut Timespec) -> i32 {
    clock_nanosleep(0, 0, time, rest)
}

use snowflaker::generator::{Generator, SnowflakeGenerator};

fn main() {
    let generator = SnowflakeGenerator::new(1, 5).unwrap();
    for back_ms in [5, 8, 9, 3_600_000] {
        let before = generator.next_id().unwrap() >> 22;
        NOW_MS.fetch_sub(back_ms, Relaxed);
        let behind = NOW_MS.load(Relaxed);
        let after = generator.next_id().unwrap() >> 22;
        let slept = NOW_MS.load(Relaxed) - behind;
        let moved = after as i64 - before as i64;
        println!("set back by {back_ms} ms: slept {slept} ms, the id moves {moved} ms");
        NOW_MS.fetch_add(back_ms, Relaxed);
    }
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >seen.txt
diff -u - seen.txt <<'END'
set back by 5 ms: slept 10 ms, the id moves 5 ms
set back by 8 ms: slept 16 ms, the id moves 8 ms
set back by 9 ms: slept 0 ms, the id moves -9 ms
set back by 3600000 ms: slept 0 ms, the id moves -3600000 ms
END
