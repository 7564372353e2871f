#!/usr/bin/env bash
# npm snowflake-id 1.1.0 and flakeid 1.0.1: machine 0 is machine 1, and machine
# 1023 is machine 0.
#
# Guess: `mid` takes each of the 1,024 numbers of a 10-bit field, and each
# number is a machine of its own.
# Seen: the packages compute (mid or 1) modulo 1023. Two machines that are
# configured as 0 and 1 stamp the same 10 bits, so their ids can be equal, and
# no message says so. The only way to stamp 0 is to configure 1023.
# Why it matters: who decodes such an id sees worker 1 for two machines; a
# fleet that is numbered from 0 has this collision from its second machine on.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts snowflake-id@1.1.0 flakeid@1.0.1

cat >run.js <<'END'
Date.now = () => 1800000000000;
const Snowflake = require('snowflake-id').default;
const FlakeId = require('flakeid');
for (const mid of [0, 1, 2, 1022, 1023]) {
  const ids = [new Snowflake({ mid }).generate(), new FlakeId({ mid }).gen()];
  const workers = ids.map((id) => Number((BigInt(id) >> 12n) & 1023n));
  console.log('mid', mid, 'stamped', ...workers, 'id', ids[0]);
}
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
mid 0 stamped 1 1 id 7549747200000004096
mid 1 stamped 1 1 id 7549747200000004096
mid 2 stamped 2 2 id 7549747200000008192
mid 1022 stamped 1022 1022 id 7549747200004186112
mid 1023 stamped 0 0 id 7549747200000000000
END
