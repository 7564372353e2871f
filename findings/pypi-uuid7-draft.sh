#!/usr/bin/env bash
# PyPI uuid7 0.1.0 makes UUIDs of a draft of 2021, not of RFC 9562.
#
# Guess: a package of this name puts the milliseconds since 1970 into the first
# 48 bits, as RFC 9562 says.
# Seen: the first 36 bits are seconds and the next 24 bits a fraction, as in the
# draft that came before. Version and variant are right, so a decoder of the
# RFC takes it: a UUID of January 2027 is of August 2203 there. Read by the RFC,
# time runs about 4.1 times as fast.
# Why it matters: UUIDs of both kinds in one column do not sort by time: those
# of the draft are after those of the RFC for the next 176 years.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib uuid7==0.1.0

cat >run.py <<'END'
import datetime
from uuid_extensions import uuid7

epoch = datetime.datetime(1970, 1, 1)
for seconds in [1_800_000_000, 1_800_000_016]:
    made = uuid7(seconds * 1_000_000_000 + 123_000_000)
    print(made.hex[:16], "version", made.version, made.variant)
    print(" RFC  ", epoch + datetime.timedelta(milliseconds=made.int >> 80))
    print(" draft", epoch + datetime.timedelta(seconds=made.int >> 92))
END
PYTHONPATH=lib python3 run.py >seen.txt
diff -u - seen.txt <<'END'
06b49d2001f77ced version 7 specified in RFC 4122
 RFC   2203-08-21 08:00:00.503000
 draft 2027-01-15 08:00:00
06b49d2101f77ced version 7 specified in RFC 4122
 RFC   2203-08-21 08:01:06.039000
 draft 2027-01-15 08:00:16
END
