#!/usr/bin/env bash
# PyPI sonyflake-py 1.3.0 sleeps 100 ms at a full tick, where a tick has 10 ms.
#
# Guess: after 256 ids of a tick the package sleeps until the next tick, so it
# makes 25,600 ids a second, as the design that it names; after a clock that
# was set back by 10 s it sleeps at most 10 s.
# Seen: it converts ticks to seconds by a factor that is ten times too large.
# It makes 256 ids in 100 ms, 2,560 a second, and after a set-back by 10 s it
# sleeps for 100 s under its lock as soon as the tick is full.
# Why it matters: ids of a busy process come in bursts of 256 whose times are
# ten ticks apart; a measured rate of ids says nothing about the design.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib sonyflake-py==1.3.0

cat >run.py <<'END'
import datetime
import sonyflake.sonyflake as module

clock = [1_800_000_000.0]
slept = []

class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(clock[0], tz)

def sleep(seconds):
    slept.append(round(seconds, 3))
    clock[0] += seconds

module.datetime.datetime = Clock
module.sleep = sleep
generator = module.SonyFlake(machine_id=lambda: 5)
clock[0] += 0.01
ticks = [generator.next_id() >> 24 for _ in range(600)]
seen = sorted(set(ticks))
print("ids of each tick", [ticks.count(tick) for tick in seen])
print("ticks after the first", [tick - seen[0] for tick in seen])
print("slept", slept)

clock[0] -= 10
slept.clear()
for _ in range(200):
    generator.next_id()
print("slept after a set-back by 10 s", slept)
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
ids of each tick [256, 1, 256, 1, 86]
ticks after the first [0, 1, 10, 11, 20]
slept [0.1, 0.1]
slept after a set-back by 10 s [100.1]
END
