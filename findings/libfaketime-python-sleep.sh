#!/usr/bin/env bash
# With libfaketime that leaves the monotonic clock alone, time.sleep of Python
# fails.
#
# Guess: FAKETIME_DONT_FAKE_MONOTONIC=1 narrows what libfaketime changes to the
# wall clock, so a program that sleeps by the monotonic clock runs as before.
# Seen: with libfaketime 0.9.10 and that variable every time.sleep of Python 3.11
# raises OSError 22, whether the wall clock is moved or not. Without it, the
# sleep works with any clock. It sleeps until an absolute time of the monotonic
# clock; a relative time, as Perl has it, works with the variable as well.
# Why it matters: generators of ids are tested with the wall clock set back. The
# test ends with an error that names neither the clock nor the library.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq -o APT::Sandbox::User=root libfaketime=0.9.10-2.1
dpkg -x libfaketime_*.deb debian
library=$(find "$PWD/debian" -name libfaketime.so.1)
cat >run.py <<'END'
import time

began = time.monotonic()
try:
    time.sleep(0.1)
    print("slept", time.monotonic() - began >= 0.1)
except OSError as error:
    print(error)
END
for narrow in 0 1; do
    for shift in +0 -1h; do
        export FAKETIME=$shift FAKETIME_DONT_FAKE_MONOTONIC=$narrow
        echo "$shift, narrowed $narrow: $(LD_PRELOAD=$library python3 run.py)"
        perl='select(undef, undef, undef, 0.1); print "perl awake\n"'
        echo "$shift, narrowed $narrow: $(LD_PRELOAD=$library perl -e "$perl")"
    done
done >seen.txt
diff -u - seen.txt <<'END'
+0, narrowed 0: slept True
+0, narrowed 0: perl awake
-1h, narrowed 0: slept True
-1h, narrowed 0: perl awake
+0, narrowed 1: [Errno 22] Invalid argument
+0, narrowed 1: perl awake
-1h, narrowed 1: [Errno 22] Invalid argument
-1h, narrowed 1: perl awake
END
