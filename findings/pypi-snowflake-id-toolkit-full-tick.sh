#!/usr/bin/env bash
# PyPI snowflake-id-toolkit 0.6.0: after a full millisecond, ids of node 4 carry
# node 5.
#
# Guess: when the 4,096 numbers of a millisecond are used up, the generator
# waits for the next one and begins with sequence 0.
# Seen: it waits, and then counts on: sequence 4,096 of the next millisecond
# reaches into the node field, where it is combined by a bitwise "or". Even
# nodes stamp ids of the next odd node, equal to those that this node makes in
# the same millisecond. In such a millisecond the limit no longer applies: 5,000
# ids come without a wait, and still more reach the next bits of the node.
# Why it matters: two nodes with different numbers make equal ids, each time
# one of them is busy for more than a millisecond.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib \
  snowflake-id-toolkit==0.6.0 typing_extensions==4.16.0

cat >run.py <<'END'
import time

clock = [1_800_000_000_000, 0]

def time_ns():
    # The clock moves by a millisecond after 20,000 readings.
    clock[1] += 1
    if clock[1] % 20_000 == 0:
        clock[0] += 1
    return clock[0] * 1_000_000

time.time_ns = time_ns
from snowflake_id_toolkit import TwitterSnowflakeIDGenerator

def describe(name, id):
    print(name, "tick", (id >> 22) - 1_800_000_000_000, "node", id >> 12 & 1023, "seq", id & 4095)

four = TwitterSnowflakeIDGenerator(node_id=4)
ids = [four.generate_next_id() for _ in range(4096 + 5000)]
for call in [1, 4096, 4097, 4098, 9096]:
    describe(f"node 4, call {call}:", ids[call - 1])

five = TwitterSnowflakeIDGenerator(node_id=5)
others = {five.generate_next_id() for _ in range(4096)}
print("ids of node 4 that node 5 makes in the same millisecond:", len(others & set(ids)))
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
node 4, call 1: tick 0 node 4 seq 0
node 4, call 4096: tick 0 node 4 seq 4095
node 4, call 4097: tick 1 node 5 seq 0
node 4, call 4098: tick 1 node 5 seq 1
node 4, call 9096: tick 1 node 6 seq 903
ids of node 4 that node 5 makes in the same millisecond: 4096
END
