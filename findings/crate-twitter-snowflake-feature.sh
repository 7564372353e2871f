#!/usr/bin/env bash
# crate twitter_snowflake 1.0.3: a feature that any crate of a program turns on
# changes the layout and the unit of all its ids.
#
# Guess: features of a crate add to it; two libraries of one program that use this
# crate each get what they chose.
# Seen: Cargo builds the crate once, with the features of all its users. With
# `float-safe` the ids have 53 bits with seconds, without it 63 bits with
# milliseconds: one dependency more in the program, and ids of all callers are
# from then on smaller than those before, by a factor of two thousand.
# Why it matters: the layout of ids is decided by the dependency tree, not by the
# code that makes them; a table gets two layouts by an update of a library.
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
twitter_snowflake = "=1.0.3"
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
    let id = twitter_snowflake::Snowflake::new(5).unwrap().generate().unwrap();
    println!("{id} bits {}", 64 - id.leading_zeros());
}
END
export CARGO_TARGET_DIR=$dir/target
cargo run --quiet >seen.txt

# A second library of the same program.
mkdir -p other/src
cat >other/Cargo.toml <<'END'
[package]
name = "other"
version = "0.0.0"
edition = "2021"

[dependencies]
twitter_snowflake = { version = "=1.0.3", features = ["float-safe"] }
END
: >other/src/lib.rs
echo 'other = { path = "other" }' >>Cargo.toml
cargo run --quiet >>seen.txt
diff -u - seen.txt <<'END'
402492122726420480 bits 59
201246062018560 bits 48
END
