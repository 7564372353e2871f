#!/usr/bin/env bash
# npm sonyflake 1.1.2: milliseconds, an epoch of 1970, 65 bits, and the 257th
# id of a millisecond is the first again.
#
# Guess: the name stands for Sony's design: 39 bits of 10 ms since 2014-09-01,
# 8 bits sequence, 16 bits machine, below 2^63; at 256 ids the generator waits.
# Seen: the time is in milliseconds since 1970 unless an epoch is given, and is
# shifted by 24 bits. Today it has 41 bits, so an id needs 65: it fits neither
# a signed nor an unsigned integer of 64 bits. With Sony's epoch it has 63
# bits and reads as a date in the wrong century to a decoder of Sony's unit.
# The sequence wraps without a wait or an error.
# Why it matters: such ids do not fit a BIGINT column, and a process that makes
# more than 256 ids in a millisecond makes the same ones twice.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts sonyflake@1.1.2

cat >run.js <<'END'
Date.now = () => 1800000000000;
const { Sonyflake } = require('sonyflake');
const sony = 1409529600000;
for (const [name, options] of [['default', {}], ['epoch of Sony', { epoch: sony }]]) {
  const id = BigInt(new Sonyflake({ machineId: 5, ...options }).nextId());
  console.log(name, id.toString(), 'bits', id.toString(2).length);
  const ticks = Number(id >> 24n);
  const read = new Date(ticks * 10 + sony).toISOString();
  if (options.epoch) console.log(' read in units of 10 ms:', read);
}
const generator = new Sonyflake({ machineId: 5 });
const ids = Array.from({ length: 600 }, () => generator.nextId());
console.log('600 calls in one millisecond, distinct', new Set(ids).size,
  'call 257 repeats call', ids.indexOf(ids[256]) + 1);
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
default 30198988800000065541 bits 65
epoch of Sony 6551006242406465541 bits 63
 read in units of 10 ms: 2138-05-27T08:00:00.000Z
600 calls in one millisecond, distinct 256 call 257 repeats call 1
END
