#!/usr/bin/env bash
# PyPI uuid6 2025.0.1: each UUIDv7 of a burst moves the time by a millisecond.
#
# Guess: UUIDs of version 7 that are made in one millisecond carry that
# millisecond, and differ in a counter or in random bits.
# Seen: when the clock shows the millisecond of the last UUID or less, the
# package adds one millisecond to the time in the UUID. A burst of 100,000
# UUIDs within one millisecond ends 100 s ahead of the clock. After the clock is
# set back by an hour, UUIDs continue at the greatest time so far.
# Why it matters: the time in these UUIDs is not the time at which they were
# made. Who extracts it after a bulk insert reads the future, and UUIDs of other
# processes sort before them although they were made later.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib uuid6==2025.0.1

cat >run.py <<'END'
import time

time.time_ns = lambda: 1_800_000_000_000_000_000
import uuid6

def ahead(made):
    return (made.int >> 80) - time.time_ns() // 1_000_000

for count in (1, 1, 998, 99_000):
    for _ in range(count):
        made = uuid6.uuid7()
    print("ahead of the clock:", ahead(made), "ms")

time.time_ns = lambda: 1_800_000_000_000_000_000 - 3_600_000_000_000
print("clock set back by an hour:", ahead(uuid6.uuid7()), "ms")
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
ahead of the clock: 0 ms
ahead of the clock: 1 ms
ahead of the clock: 999 ms
ahead of the clock: 99999 ms
clock set back by an hour: 3700000 ms
END
