#!/usr/bin/env bash
# crate uuid 1.29.3: a UUID of version 1 or 6 from before 1970 is read as 58
# thousand years from now.
#
# Guess: the time field of version 1 begins in 1582, so `get_timestamp` and
# `to_unix` give a time before 1970 as a negative number or as nothing.
# Seen: the difference to 1970 is taken without a sign and wraps: 1582-10-15 is
# 1832455114570 seconds, and the last tick of 1969 is 1844674407370 seconds,
# without an error. `to_gregorian` is right for both. PostgreSQL 18 and Python
# read the same UUIDs as 1582 and 1969.
# Why it matters: a program that shows the time of an old or nil-like UUID by
# `to_unix` shows nonsense, or fails where its calendar ends.
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
uuid = { version = "=1.29.3", features = ["v1"] }
END
cat >src/main.rs <<'END'
fn main() {
    let texts = [
        "00000000-0000-1000-8000-000000000000",
        "13813fff-1dd2-11b2-8000-000000000000",
        "1b21dd21-3813-6fff-8000-000000000000",
        "13814000-1dd2-11b2-8000-000000000000",
    ];
    for text in texts {
        let time = uuid::Uuid::parse_str(text).unwrap().get_timestamp().unwrap();
        println!("{text} unix {:?} gregorian {}", time.to_unix(), time.to_gregorian().0);
    }
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >seen.txt
diff -u - seen.txt <<'END'
00000000-0000-1000-8000-000000000000 unix (1832455114570, 955161600) gregorian 0
13813fff-1dd2-11b2-8000-000000000000 unix (1844674407370, 955161500) gregorian 122192927999999999
1b21dd21-3813-6fff-8000-000000000000 unix (1844674407370, 955161500) gregorian 122192927999999999
13814000-1dd2-11b2-8000-000000000000 unix (0, 0) gregorian 122192928000000000
END
