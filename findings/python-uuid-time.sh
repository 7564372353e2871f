#!/usr/bin/env bash
# Python 3.11 uuid, PyPI uuid6 2025.0.1 and uuid-utils 1.2.0: `.time` of one UUID
# is three different things.
#
# Guess: `UUID.time` is the time of the UUID, or an error where there is none.
# Seen: the standard library applies the layout of version 1 to each version: of
# versions 6 and 7 it returns a number that is no time, without an error. The
# two packages return milliseconds since 1970 for version 7 and ticks of 100 ns
# since 1582 for version 6, under the same name. A uuid_utils.UUID does not equal
# the standard UUID of the same bits, although both have one hash: a look-up in
# a set or a dictionary finds nothing, and sorting both kinds is a TypeError.
# Why it matters: code that reads `.time` after `uuid.UUID(text)` works in tests
# with uuid6 and gets years of nonsense in production, where the text came from
# a database.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib uuid6==2025.0.1 uuid-utils==1.2.0

cat >run.py <<'END'
import uuid

import uuid6
import uuid_utils

TEXTS = [
    ("version 1", "13814000-1dd2-11b2-8000-000000000000"),
    ("version 6", "1b21dd21-3814-6000-8000-000000000000"),
    ("version 7", "01a3185c-5000-7000-8000-000000000000"),
]
for version, text in TEXTS:
    classes = [uuid.UUID, uuid6.UUID, uuid_utils.UUID]
    print(version, [made(text).time for made in classes])

standard, other = uuid.UUID(TEXTS[2][1]), uuid_utils.UUID(TEXTS[2][1])
print("equal", standard == other, other == standard, "hash", hash(standard) == hash(other))
try:
    print(sorted([standard, other]))
except TypeError:
    print("sorted: TypeError")
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
version 1 [122192928000000000, 122192928000000000, 122192928000000000]
version 6 [61659005705505, 122192928000000000, 122192928000000000]
version 7 [87960957687900, 1800000000000, 1800000000000]
equal False False hash True
sorted: TypeError
END
