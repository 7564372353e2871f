#!/usr/bin/env bash
# npm snowflake-id 1.1.0: the 4,097th id of a millisecond repeats the first.
#
# Guess: a Twitter-style generator that waits for the next millisecond when its
# 12-bit sequence is used up also stamps that next millisecond.
# Seen: it waits, and then stamps the millisecond that was full, with sequence
# 0: the id of 4,096 calls before. npm flakeid 1.0.1, a fork of the same code
# with the same layout, reads the clock again and repeats nothing.
# Why it matters: a table whose ids come from this package can hold pairs of
# equal ids. They tell of a burst within one process, not of two machines that
# share a worker number.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts snowflake-id@1.1.0 flakeid@1.0.1

cat >run.js <<'END'
let now = 1800000000000, reads = 0;
// The clock stands for 10,000 reads, so that 4,096 ids fit into a millisecond.
Date.now = () => { if (++reads % 10000 === 0) now += 1; return now; };
const show = (name, next) => {
  const ids = Array.from({ length: 5000 }, next).map(BigInt);
  const again = ids.findIndex((id, i) => ids.indexOf(id) < i);
  console.log(name, 'distinct', new Set(ids).size, 'of', ids.length);
  if (again >= 0) {
    const id = ids[again];
    console.log(' call', again + 1, 'repeats call', ids.indexOf(id) + 1);
    console.log(' time', Number(id >> 22n), 'sequence', Number(id & 4095n));
  }
};
const Snowflake = require('snowflake-id').default;
const first = new Snowflake({ mid: 5 });
show('snowflake-id', () => first.generate());
now = 1800000001000;
reads = 0;
const FlakeId = require('flakeid');
const second = new FlakeId({ mid: 5 });
show('flakeid', () => second.gen());
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
snowflake-id distinct 4999 of 5000
 call 4097 repeats call 1
 time 1800000000000 sequence 0
flakeid distinct 5000 of 5000
END
