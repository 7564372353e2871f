#!/usr/bin/env bash
# PyPI ulid-transform 2.2.9 and crate ulid 3.0.0 decode texts that are no ULID to
# another ULID, without an error.
#
# Guess: a decoder of ULIDs raises an error for the letter U, which the alphabet
# leaves out, and for texts above 7ZZZZZZZZZZZZZZZZZZZZZZZZZ, which need more
# than 128 bits. PyPI python-ulid 4.1.0 and crate rusty_ulid 2.0.1 do both.
# Seen: both packages drop the bits of the first character that do not fit, so 8
# and 0 are the same there. In ulid-transform U is a digit of 255 whose bits
# change the digit before it. The letters I and O are read as Crockford says by
# ulid-transform and rusty_ulid, and rejected by the other two.
# Why it matters: two different texts name the same key, a mistyped ULID is stored
# as another ULID, and what one service accepts another rejects.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib \
  ulid-transform==2.2.9 python-ulid==4.1.0 typing_extensions==4.16.0

cat >run.py <<'END'
import ulid_transform
from ulid import ULID

texts = [
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "OIARZ3NDEKTSV4RRFFQ69G5FAV",
    "01ARZ3NDEKTSV4RRFFQ69G5FAU",
    "81ARZ3NDEKTSV4RRFFQ69G5FAV",
    "80000000000000000000000000",
]
for text in texts:
    back = ulid_transform.bytes_to_ulid(ulid_transform.ulid_to_bytes(text))
    try:
        other = str(ULID.from_str(text))
    except ValueError:
        other = "ValueError"
    print(text, "->", back, "python-ulid", other)
END
PYTHONPATH=lib python3 run.py >seen.txt

mkdir src
cat >Cargo.toml <<'END'
[package]
name = "run"
version = "0.0.0"
edition = "2021"

[dependencies]
rusty_ulid = "=2.0.1"
ulid = "=3.0.0"
END
cat >src/main.rs <<'END'
fn main() {
    for text in [
        "OIARZ3NDEKTSV4RRFFQ69G5FAV",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",
        "80000000000000000000000000",
    ] {
        let one = ulid::Ulid::from_string(text).map(|id| id.to_string());
        let other: Result<rusty_ulid::Ulid, _> = text.parse();
        let other = other.map(|id| id.to_string());
        println!("crate ulid {text} -> {}", show(one.ok()));
        println!("  crate rusty_ulid {}", show(other.ok()));
    }
}

fn show(id: Option<String>) -> String {
    id.unwrap_or("error".to_owned())
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >>seen.txt
diff -u - seen.txt <<'END'
01ARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV python-ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV
OIARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV python-ulid ValueError
01ARZ3NDEKTSV4RRFFQ69G5FAU -> 01ARZ3NDEKTSV4RRFFQ69G5FFZ python-ulid ValueError
81ARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV python-ulid ValueError
80000000000000000000000000 -> 00000000000000000000000000 python-ulid ValueError
crate ulid OIARZ3NDEKTSV4RRFFQ69G5FAV -> error
  crate rusty_ulid 01ARZ3NDEKTSV4RRFFQ69G5FAV
crate ulid 01ARZ3NDEKTSV4RRFFQ69G5FAU -> error
  crate rusty_ulid error
crate ulid 81ARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV
  crate rusty_ulid error
crate ulid 80000000000000000000000000 -> 00000000000000000000000000
  crate rusty_ulid error
END
