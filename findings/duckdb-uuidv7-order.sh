#!/usr/bin/env bash
# PyPI duckdb 2.0.1: uuidv7() of one query does not rise, and the latest times
# are read as times before 1970.
#
# Guess: UUIDs of version 7 that one query makes row by row rise with the rows,
# as those of one PostgreSQL session do; uuid_extract_timestamp reads 48 bits of
# unsigned milliseconds.
# Seen: within a millisecond the UUIDs are random: about half of the neighbors
# of a query fall. A UUID whose time has its top bit set (from the year 6429 on)
# is read as a negative time.
# Why it matters: `ORDER BY` of such a column does not give back the order of
# insertion, and ffffffff-ffff-7fff-bfff-ffffffffffff, which is used as an upper
# bound of a range, prints as 1969.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib duckdb==2.0.1

cat >run.py <<'END'
import duckdb

connection = duckdb.connect()
fell, count = connection.execute(
    """
    WITH made AS (SELECT i, uuidv7() AS id FROM range(100000) t(i)),
    pairs AS (SELECT id, lag(id) OVER (ORDER BY i) AS before FROM made)
    SELECT count(*) FILTER (id < before), count(before) FROM pairs
    """
).fetchone()
print("of 100,000 neighbors about half fall:", 0.4 < fell / count < 0.6)
connection.execute("SET TimeZone = 'UTC'")
for id in ["7fffffff-ffff-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff"]:
    query = "SELECT epoch_ms(uuid_extract_timestamp(CAST(? AS UUID)))"
    print(id, "milliseconds", connection.execute(query, [id]).fetchone()[0])
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
of 100,000 neighbors about half fall: True
7fffffff-ffff-7000-8000-000000000000 milliseconds 140737488355327
ffffffff-ffff-7fff-bfff-ffffffffffff milliseconds -1
END
