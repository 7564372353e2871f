#!/usr/bin/env bash
# npm simple-flakeid 0.0.5: fewer than 6 sequence bits make workers share ids,
# more than 6 are not used.
#
# Guess: `seqBitLength` sets how many ids a worker makes in a millisecond, and
# worker numbers keep the ids of two workers apart.
# Seen: the greatest sequence number stays 63, the value for 6 bits, with every
# `seqBitLength`. With 3 bits the numbers 8 to 63 are added into the bits of
# the worker: of 59 ids each that workers 1 and 2 make in one millisecond, 51
# are the same. With 10 bits a millisecond still ends after 59 ids.
# Ports of the same algorithm in other languages derive the maximum from the
# option.
# Why it matters: an id of such a fleet does not say which worker made it, and
# duplicates appear although every worker number is unique.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts simple-flakeid@0.0.5

cat >run.js <<'END'
const Real = Date;
global.Date = class extends Real { constructor() { super(1800000000000); } };
const { SnowflakeIdv1 } = require('simple-flakeid');
// The 59 ids of one millisecond: sequences 0 to 4 are reserved.
const make = (workerId, seqBitLength) => {
  const generator = new SnowflakeIdv1({ workerId, seqBitLength });
  return Array.from({ length: 59 }, () => generator.NextBigId());
};
for (const bits of [3, 4, 5, 6, 10]) {
  const one = make(1, bits), two = make(2, bits);
  const greatest = one.at(-1) - one[0] + 5n;
  const shared = one.filter((id) => two.includes(id)).length;
  console.log('bits', bits, 'greatest sequence', Number(greatest), 'shared ids', shared);
}
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
bits 3 greatest sequence 63 shared ids 51
bits 4 greatest sequence 63 shared ids 43
bits 5 greatest sequence 63 shared ids 27
bits 6 greatest sequence 63 shared ids 0
bits 10 greatest sequence 63 shared ids 0
END
