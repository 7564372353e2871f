#!/usr/bin/env bash
# crate rs-snowflake 0.6.0: an id made after an hour carries the time of the
# first, and SnowflakeIdBucket hands out falling ids.
#
# Guess: the time in an id is the time at which it was made, and later ids of one
# generator are greater.
# Seen: `generate` reads the clock at construction and once in 4,096 ids. An id
# made an hour later has the old millisecond; so a quiet service stamps hours or
# days of the past. `lazy_generate` and the bucket never read it again: 100,000
# ids at once are 24 ms ahead. The bucket fills itself with 4,091 ids and hands
# them out from the end: each id is smaller than the one before. Only
# `real_time_generate` stamps the time of the call.
# Why it matters: the time of such an id is a lower bound at best; with a bucket
# a column of ids sorts against the order of insertion, page by page.
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
rs-snowflake = "=0.6.0"
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

fn main() {
    let ms = |id: i64| (id >> 22) - 1_800_000_000_000;
    let mut plain = snowflake::SnowflakeIdGenerator::new(0, 5);
    let mut real = snowflake::SnowflakeIdGenerator::new(0, 5);
    let mut bucket = snowflake::SnowflakeIdBucket::new(0, 5);
    NOW_MS.fetch_add(3_600_000, Relaxed);
    println!("after an hour: generate {} ms", ms(plain.generate()));
    println!("after an hour: real_time_generate {} ms", ms(real.real_time_generate()));
    let ids: Vec<i64> = (0..4091).map(|_| bucket.get_id()).collect();
    println!("bucket: falls {} of 4090", ids.windows(2).filter(|two| two[1] < two[0]).count());
    println!("bucket: first {} ms, sequence {}", ms(ids[0]), ids[0] & 4095);
    println!("bucket: last {} ms, sequence {}", ms(ids[4090]), ids[4090] & 4095);
    let last = (0..100_000).map(|_| plain.lazy_generate()).last().unwrap();
    println!("lazy_generate: after 100,000 ids {} ms", ms(last));
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >seen.txt
diff -u - seen.txt <<'END'
after an hour: generate 0 ms
after an hour: real_time_generate 3600000 ms
bucket: falls 4090 of 4090
bucket: first 0 ms, sequence 4091
bucket: last 0 ms, sequence 1
lazy_generate: after 100,000 ids 24 ms
END
