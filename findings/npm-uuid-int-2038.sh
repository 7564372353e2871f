#!/usr/bin/env bash
# npm uuid-int 3.1.0: ids are negative from 2038 on, and the package makes 4,096
# ids a second.
#
# Guess: an id of 53 bits with 33 bits of seconds, as the mask 1ffffffff in the
# package says, lasts until the year 2242; a busy second waits.
# Seen: bitwise operators of JavaScript work on 32 signed bits, so the mask has
# no effect and the time is negative from 2038-01-19 on, unless the caller gives
# a later epoch. Call 4,097 of a second throws, and the stamped time is the
# second after the current one.
# Why it matters: ids fall by 2^53 within one second in 2038; a column sorted by
# id puts new rows first.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts uuid-int@3.1.0

cat >run.js <<'END'
let now = Date.parse('2038-01-19T03:14:05Z');
Date.now = () => now;
const generator = require('uuid-int')(5);
for (let i = 0; i < 3; i++) {
  const id = generator.uuid();
  console.log(new Date(now).toISOString(), id, 'seconds in it', Math.floor(id / 2 ** 21));
  now += 1000;
}
now += 5000;
let made = 0;
try {
  for (;;) { generator.uuid(); made += 1; }
} catch (error) {
  console.log('ids of one second', made, 'then', error.message);
}
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
2038-01-19T03:14:05.000Z 4503599623196672 seconds in it 2147483646
2038-01-19T03:14:06.000Z 4503599625293824 seconds in it 2147483647
2038-01-19T03:14:07.000Z -4503599627350016 seconds in it -2147483648
ids of one second 4096 then uuid out of range
END
