#!/usr/bin/env bash
# npm: five packages, four answers to a worker number that does not fit.
#
# Guess: a worker number above the field is an error.
# Seen: flake-idgen 1.4.0, snowyflake 2.0.1 and sonyflake 1.1.2 cut it to the
# field, so that workers 0 and 1024 (or 0 and 32, or 0 and 65536) are one;
# @akashrajpurohit/snowflake-id 2.0.0 writes one more bit, which doubles the
# time in the id: an id of 2027 is read as one of 2033; nodejs-snowflake 2.0.1
# throws a value that is no Error and has no message.
# Why it matters: numbers that come from an ordinal, an address or a process id
# pass 31 or 1,023 unnoticed; the ids look fine and collide, or lie in the
# future.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts flake-idgen@1.4.0 snowyflake@2.0.1 \
  @akashrajpurohit/snowflake-id@2.0.0 sonyflake@1.1.2 nodejs-snowflake@2.0.1

cat >run.js <<'END'
const now = 1800000000000;
Date.now = () => now;
const attempt = (name, call) => {
  try { console.log(name, call()); }
  catch (error) { console.log(name, 'threw', error instanceof Error, error.message); }
};
const FlakeId = require('flake-idgen');
const { Snowyflake } = require('snowyflake');
const { SnowflakeId } = require('@akashrajpurohit/snowflake-id');
const { Sonyflake } = require('sonyflake');
const { Snowflake } = require('nodejs-snowflake');
for (const id of [0, 1024])
  attempt(`flake-idgen ${id}:`, () => new FlakeId({ id }).next().toString('hex'));
for (const workerId of [0n, 32n])
  attempt(`snowyflake ${workerId}:`, () => new Snowyflake({ workerId }).nextId().toString(16));
for (const machineId of [0, 65536])
  attempt(`sonyflake ${machineId}:`, () => new Sonyflake({ machineId }).nextId());
for (const workerId of [1023, 1024])
  attempt(`@akashrajpurohit/snowflake-id ${workerId}: read as`, () => {
    const id = BigInt(SnowflakeId({ workerId }).generate());
    return new Date(Number(id >> 22n) + 1597017600000).toISOString();
  });
attempt('nodejs-snowflake 4096:', () => new Snowflake({ instance_id: 4096 }).getUniqueID());
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
flake-idgen 0: 68c6171400000000
flake-idgen 1024: 68c6171400000000
snowyflake 0: 68c6171400000001
snowyflake 32: 68c6171400000001
sonyflake 0: 30198988800000065536
sonyflake 65536: 30198988800000065536
@akashrajpurohit/snowflake-id 1023: read as 2027-01-15T08:00:00.000Z
@akashrajpurohit/snowflake-id 1024: read as 2033-06-21T16:00:00.001Z
nodejs-snowflake 4096: threw false undefined
END
