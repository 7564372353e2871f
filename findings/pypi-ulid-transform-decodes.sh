#!/usr/bin/env bash
# PyPI ulid-transform 2.2.9 decodes texts that are no ULID, without an error.
#
# Guess: a decoder of ULIDs raises an error for the letter U, which the alphabet
# leaves out, and for texts above 7ZZZZZZZZZZZZZZZZZZZZZZZZZ, which need more
# than 128 bits. PyPI python-ulid 4.1.0 does both.
# Seen: ulid-transform takes both. U becomes a digit of 255 whose bits change
# the digit before it; the three bits of the first character that do not fit
# are dropped, so 8 and 0 are the same, and the text that comes back differs
# from the one that went in. Lower case and the letters I, L and O are read as
# Crockford says, which python-ulid rejects for I, L and O.
# Why it matters: two different texts name the same key, and a mistyped ULID is
# stored as another ULID instead of being rejected.
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
    print(text, "->", back, "python-ulid:", other)
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
01ARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV python-ulid: 01ARZ3NDEKTSV4RRFFQ69G5FAV
OIARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV python-ulid: ValueError
01ARZ3NDEKTSV4RRFFQ69G5FAU -> 01ARZ3NDEKTSV4RRFFQ69G5FFZ python-ulid: ValueError
81ARZ3NDEKTSV4RRFFQ69G5FAV -> 01ARZ3NDEKTSV4RRFFQ69G5FAV python-ulid: ValueError
80000000000000000000000000 -> 00000000000000000000000000 python-ulid: ValueError
END
