#!/usr/bin/env bash
# npm @thi.ng/ksuid 3.2.124 reads a KSUID 200,000,000 seconds later than
# npm ksuid 3.0.0 does.
#
# Guess: a KSUID is 27 base62 characters, 4 bytes of seconds since the published
# epoch 1400000000 and 16 random bytes, and both packages read the same time.
# Seen: the texts have the same length and alphabet, and each package parses
# those of the other. But the epoch of @thi.ng/ksuid is 1600000000 by default:
# the id that Segment prints in its own documentation, of 2017-10-10, is of
# 2024-02-10 there.
# Why it matters: nothing in a KSUID names its epoch; a column with ids of both
# packages sorts by neither of their times.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts @thi.ng/ksuid@3.2.124 ksuid@3.0.0

cat >run.js <<'END'
const ksuid = require('ksuid');
const text = '0ujtsYcgvSTl8PAuAdqWYSMnLOv';
import('@thi.ng/ksuid').then(({ defKSUID32 }) => {
  const other = defKSUID32();
  const day = (ms) => new Date(ms).toISOString();
  console.log('ksuid        ', day(ksuid.parse(text).date.getTime()));
  console.log('@thi.ng/ksuid', day(other.parse(text).epoch));
  const id = other.fromEpoch(1800000000000);
  console.log('made by @thi.ng/ksuid for', day(1800000000000), 'length', id.length);
  console.log('ksuid reads              ', day(ksuid.parse(id).date.getTime()));
  const segment = other.parse(text).epoch;
  console.log('difference in seconds', (segment - ksuid.parse(text).date.getTime()) / 1000);
});
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
ksuid         2017-10-10T04:00:47.000Z
@thi.ng/ksuid 2024-02-10T23:34:07.000Z
made by @thi.ng/ksuid for 2027-01-15T08:00:00.000Z length 27
ksuid reads               2020-09-13T12:26:40.000Z
difference in seconds 200000000
END
