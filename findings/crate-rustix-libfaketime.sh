#!/usr/bin/env bash
# libfaketime sets the clock of a Rust program, but not where crate rustix reads
# it.
#
# Guess: LD_PRELOAD of libfaketime reaches every read of the wall clock in a
# program that is linked with the C library; only static binaries escape.
# Seen: with libfaketime 0.9.10 a day ahead, std::time::SystemTime of a program
# is a day ahead, and clock_gettime(Realtime) of rustix 1.1.6 in the same
# program shows the true time: its default backend calls the vDSO itself. With
# the feature `use-libc` both are a day ahead.
# Why it matters: a test of id generators under wrong clocks passes because the
# clock never was wrong, or sees two times in one process. Any crate of the
# dependency tree may enable the feature for all others.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq -o APT::Sandbox::User=root libfaketime=0.9.10-2.1
dpkg -x libfaketime_*.deb debian
library=$(find "$PWD/debian" -name libfaketime.so.1)
mkdir src
cat >src/main.rs <<'END'
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

fn main() {
    let true_seconds: u64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let std = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let rustix = clock_gettime(ClockId::Realtime).tv_sec as u64;
    let hours = |seconds: u64| (seconds as f64 - true_seconds as f64) / 3600.0;
    println!("std {:+.0} h, rustix {:+.0} h", hours(std), hours(rustix));
}
END
for features in '"time", "std"' '"time", "std", "use-libc"'; do
    cat >Cargo.toml <<END
[package]
name = "clocks"
version = "0.0.0"
edition = "2024"

[dependencies]
rustix = { version = "=1.1.6", default-features = false, features = [$features] }
END
    CARGO_TARGET_DIR=target cargo build --quiet
    echo "$features:" "$(LD_PRELOAD=$library FAKETIME=+24h target/debug/clocks "$(date +%s)")"
done >seen.txt
diff -u - seen.txt <<'END'
"time", "std": std +24 h, rustix +0 h
"time", "std", "use-libc": std +24 h, rustix +24 h
END
