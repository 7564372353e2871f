#!/usr/bin/env bash
# PyPI sonyflake-turbo 1.0.1: the machine is above the sequence, and its pure
# Python form repeats an id when a batch follows a single call.
#
# Guess: "Sonyflake" is 39 bits time, 8 bits sequence, 16 bits machine; the
# pure and the compiled form of one package give out the same ids.
# Seen: 8 bits sequence are lowest and 16 bits machine above them. Nothing in an
# id says which order it has: ids of this package and of others of that name
# are decoded to plausible but wrong numbers. `sonyflake_turbo.pure`, which the
# package loads where no compiled form is there, begins a batch `generator(n)`
# with the id that the last `next(generator)` returned.
# Why it matters: machine 5 of this package is machine 1,280 to a decoder of
# Sony's order while the sequence is 0, and ids of a fleet that holds both kinds
# of packages can be equal.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib sonyflake-turbo==1.0.1

cat >run.py <<'END'
import sonyflake_turbo
import sonyflake_turbo.pure as pure

pure.time_ns = lambda: 1_800_000_000_000_000_000
pure.sleep = lambda seconds: None
generator = pure.SonyFlake(5, start_time=1_409_529_600)
ids = [next(generator) for _ in range(2)]
print("id", ids[0], "low 8 bits", ids[0] & 255, "next 16", ids[0] >> 8 & 65535)
print("read in Sony's order: sequence", ids[0] >> 16 & 255, "machine", ids[0] & 65535)

def sequences(module):
    generator = module.SonyFlake(5, start_time=1_409_529_600)
    # _raw is next() or a batch, without the sleep.
    # The first batch keeps the generator in a tick of the future.
    generator._raw(1000)
    singles = [generator._raw(None)[0] for _ in range(2)]
    batch = generator._raw(3)[0]
    first = singles[0]
    return [id - first for id in singles], [id - first for id in batch]

print("pure:     single, batch", *sequences(pure))
print("compiled: single, batch", *sequences(sonyflake_turbo))
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
id 655100624240641280 low 8 bits 0 next 16 5
read in Sony's order: sequence 0 machine 1280
pure:     single, batch [0, 1] [1, 2, 3]
compiled: single, batch [0, 1] [2, 3, 4]
END
