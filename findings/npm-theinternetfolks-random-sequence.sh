#!/usr/bin/env bash
# npm @theinternetfolks/snowflake 1.3.0: the sequence is a random number.
#
# Guess: the 12 low bits of a "snowflake" count within a millisecond, so one
# process never repeats an id below 4,096 ids a millisecond.
# Seen: they are a random number of 0 to 10,000, modulo 4,096, drawn for each id
# without a look at the ids before. Of 100 ids in one millisecond some are equal
# in 3 runs of 4. The ids of one loop neither rise nor are consecutive.
# Why it matters: a unique index rejects rows now and then, under load only; the
# order of ids within a millisecond is no order of events.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts @theinternetfolks/snowflake@1.3.0

cat >run.js <<'END'
const { Snowflake } = require('@theinternetfolks/snowflake');
// A generator of its own instead of Math.random, so that each run is the same.
let state = 1;
Math.random = () => (state = (state * 48271) % 2147483647) / 2147483647;
const options = { timestamp: 1800000000000, shard_id: 5 };
let rounds = 0;
for (let round = 0; round < 1000; round++) {
  const ids = Array.from({ length: 100 }, () => Snowflake.generate(options));
  if (new Set(ids).size < ids.length) rounds += 1;
}
console.log('milliseconds with equal ids among 100:', rounds, 'of 1000');
const five = Array.from({ length: 5 }, () => Snowflake.generate(options));
console.log('sequences of a loop', ...five.map((id) => Snowflake.parse(id).sequence));
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
milliseconds with equal ids among 100: 734 of 1000
sequences of a loop 1348 1280 3024 527 3536
END
