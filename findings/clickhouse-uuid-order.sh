#!/usr/bin/env bash
# ClickHouse in PyPI chdb-core 26.9.0 sorts UUIDs by their second half, so those
# of version 7 do not sort by time.
#
# Guess: UUIDs compare as their texts do, and ORDER BY of version 7 is the order
# of time; min() of such a column is the earliest.
# Seen: the last 64 bits are compared first. Of two UUIDs of version 7 the one with
# the smaller random bits is first, at any times. Cast to UInt128 they
# sort by time. In bytes each half is reversed. generateSnowflakeID of 3,000,000
# rows ends at least 732 ms ahead of the clock, and snowflakeIDToDateTime64
# counts from 1970 if no epoch is given: an id of Twitter of 2022 is of 1981.
# Why it matters: a sorting key of UUIDs of version 7 is random on disk, and a
# range between two of them is no range of time.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib chdb-core==26.9.0

cat >run.py <<'END'
import chdb

def show(name, query):
    print(name, chdb.query(query, "CSV").data().replace('"', "").strip().replace("\n", " "))

IDS = "['01a3185c-5000-7000-b000-000000000000', '01a3185c-6000-7000-a000-000000000000']"
ROWS = f"(SELECT toUUID(arrayJoin({IDS})) AS id)"
show("by id:", f"SELECT id FROM {ROWS} ORDER BY id")
show("by number:", f"SELECT id FROM {ROWS} ORDER BY toUInt128(id)")
show("bytes:", "SELECT hex(reinterpretAsString(toUUID('00112233-4455-6677-8899-aabbccddeeff')))")
show(
    "3,000,000 ids are at least 732 ms ahead:",
    """
    SELECT max(bitShiftRight(generateSnowflakeID(), 22)) - toUnixTimestamp64Milli(now64(3)) >= 732
    FROM numbers(3000000)
    """,
)
show("no epoch:", "SELECT snowflakeIDToDateTime64(1541815603606036480, 0, 'UTC')")
show("Twitter:", "SELECT snowflakeIDToDateTime64(1541815603606036480, 1288834974657, 'UTC')")
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
by id: 01a3185c-6000-7000-a000-000000000000 01a3185c-5000-7000-b000-000000000000
by number: 01a3185c-5000-7000-b000-000000000000 01a3185c-6000-7000-a000-000000000000
bytes: 7766554433221100FFEEDDCCBBAA9988
3,000,000 ids are at least 732 ms ahead: 1
no epoch: 1981-08-25 14:24:45.448
Twitter: 2022-06-28 16:07:40.105
END
