#!/usr/bin/env bash
# PyPI: four packages install a module named ksuid, and two of them print a
# KSUID as hexadecimal.
#
# Guess: `str()` of a KSUID is the 27 characters of base62 that the format
# defines, whichever package made it.
# Seen: ksuid 1.3 and pyksuid 1.3 print 40 hexadecimal digits; ksuid has no base62
# at all and no way to read an id, pyksuid has it under another method.
# ksuid-python 2.0.0 and svix-ksuid 0.7.0 print 27 characters. All four are
# imported as `ksuid`, so one environment holds one of them.
# Why it matters: a field of 27 characters cuts the hexadecimal form in the
# middle of its random bytes; a reader has to tell the two forms apart by their
# length.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >run.py <<'END'
import sys
import time

time.time = lambda: 1_800_000_000.0
name = sys.argv[1]
import ksuid

if hasattr(ksuid, "KSUID"):
    made = ksuid.KSUID()
elif hasattr(ksuid, "Ksuid"):
    import datetime

    made = ksuid.Ksuid(datetime.datetime.fromtimestamp(1_800_000_000, datetime.timezone.utc))
else:
    made = ksuid.ksuid()
text = str(made)
# The first characters hold the time; the rest is random.
print(name, "length", len(text), "begins", text[:4])
END
for package in ksuid==1.3 pyksuid==1.3 ksuid-python==2.0.0 svix-ksuid==0.7.0; do
  python3 -m pip install --quiet --no-deps --target "$package" "$package" \
    python-baseconv==1.2.2
  PYTHONPATH=$package python3 run.py "$package" >>seen.txt
done
diff -u - seen.txt <<'END'
ksuid==1.3 length 40 begins 17d7
pyksuid==1.3 length 40 begins 17d7
ksuid-python==2.0.0 length 27 begins 3Oui
svix-ksuid==0.7.0 length 27 begins 3Oui
END
