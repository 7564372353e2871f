#!/usr/bin/env bash
# crate svix-ksuid 0.10.0 and PyPI svix-ksuid 0.7.0: the text after the greatest
# KSUID is the least one in Rust and an error in Python.
#
# Guess: 27 characters of base62 can say more than 160 bits, so both packages of
# this name reject what is above aWgEPTl1tmebfsQzFP4bxwgy80V.
# Seen: the crate drops the bits that do not fit: the next text is the KSUID of
# zeros, of 2014, and 27 letters z are an ordinary id of 2109. The package of
# PyPI raises OverflowError.
# Why it matters: in Rust two texts name the same id, and a text that was sorted
# as the greatest is parsed as the least. A check by parsing passes both.
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
svix-ksuid = "=0.10.0"
END
cat >src/main.rs <<'END'
use std::str::FromStr;
use svix_ksuid::{Ksuid, KsuidLike};

fn main() {
    for text in [
        "aWgEPTl1tmebfsQzFP4bxwgy80V",
        "aWgEPTl1tmebfsQzFP4bxwgy80W",
        "zzzzzzzzzzzzzzzzzzzzzzzzzzz",
    ] {
        let id = Ksuid::from_str(text).unwrap();
        println!("crate {text} -> {id} seconds {}", id.timestamp_seconds());
    }
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >seen.txt

python3 -m pip install --quiet --no-deps --target lib svix-ksuid==0.7.0 python-baseconv==1.2.2
cat >run.py <<'END'
from ksuid import Ksuid

for text in ["aWgEPTl1tmebfsQzFP4bxwgy80V", "aWgEPTl1tmebfsQzFP4bxwgy80W"]:
    try:
        print("PyPI ", text, "->", Ksuid.from_base62(text))
    except OverflowError:
        print("PyPI ", text, "-> OverflowError")
END
PYTHONPATH=lib python3 run.py >>seen.txt
diff -u - seen.txt <<'END'
crate aWgEPTl1tmebfsQzFP4bxwgy80V -> aWgEPTl1tmebfsQzFP4bxwgy80V seconds 5694967295
crate aWgEPTl1tmebfsQzFP4bxwgy80W -> 000000000000000000000000000 seconds 1400000000
crate zzzzzzzzzzzzzzzzzzzzzzzzzzz -> PTJlaWEy6DLOK7Z0kavO23J1rzT seconds 4395177787
PyPI  aWgEPTl1tmebfsQzFP4bxwgy80V -> aWgEPTl1tmebfsQzFP4bxwgy80V
PyPI  aWgEPTl1tmebfsQzFP4bxwgy80W -> OverflowError
END
