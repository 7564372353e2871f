#!/usr/bin/env bash
# PyPI py-snowflake-id 0.0.1: the epoch of its ids depends on the time zone of
# the machine.
#
# Guess: the epoch 2023-01-01 is a moment, the same on every machine.
# Seen: it is midnight of that day in the local time zone. At one moment a
# machine in Shanghai stamps a time that is 8 hours greater than that of a
# machine in UTC, and the package reads such an id of the other machine as
# 8 hours off.
# Why it matters: an id alone does not say when it was made, and two machines
# with different zones do not sort by time. Containers and laptops often differ
# in their zone.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib py-snowflake-id==0.0.1

cat >run.py <<'END'
import os
import time

ids = {}
for zone in ["UTC0", "<+08>-8", "<-05>5"]:
    os.environ["TZ"] = zone
    time.tzset()
    import importlib
    import snowflake.snowflake as module

    module = importlib.reload(module)
    module.time = lambda: 1_800_000_000.0
    ids[zone] = next(module.SnowflakeGenerator(5))
    print("zone", zone, "epoch", module.START_TS, "id", ids[zone])
hours = [(ids[zone] - ids["UTC0"] >> 22) / 3_600_000 for zone in ids]
print("hours after the id of UTC", hours)
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
zone UTC0 epoch 1672531200000 id 534642897715220481
zone <+08>-8 epoch 1672502400000 id 534763693670420481
zone <-05>5 epoch 1672549200000 id 534567400243220481
hours after the id of UTC [0.0, 8.0, -5.0]
END
