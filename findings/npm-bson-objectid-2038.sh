#!/usr/bin/env bash
# npm bson-objectid 2.0.4 reads the time of an ObjectId as a signed number.
#
# Guess: the first four bytes of an ObjectId are unsigned seconds since 1970, as
# npm bson 7.3.4 reads them.
# Seen: from 2038-01-19T03:14:08Z on, the packages disagree by 136 years: the
# one for use without a driver reads 1901. It makes the right bytes for such a
# time, so a round trip through it changes the time.
# Why it matters: ids that are made today for the future, for example bounds of
# a range query up to 2040, are read as times before 1970.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts bson-objectid@2.0.4 bson@7.3.4

cat >run.js <<'END'
const ObjectID = require('bson-objectid');
const { ObjectId } = require('bson');
for (const day of ['2038-01-19T03:14:07Z', '2038-01-19T03:14:08Z', '2040-01-01T00:00:00Z']) {
  const seconds = Date.parse(day) / 1000;
  const hex = ObjectID.createFromTime(seconds).toString();
  console.log(day, hex, 'same bytes', hex === ObjectId.createFromTime(seconds).toString());
  console.log(' bson-objectid', new ObjectID(hex).getTimestamp().toISOString());
  console.log(' bson         ', new ObjectId(hex).getTimestamp().toISOString());
}
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
2038-01-19T03:14:07Z 7fffffff0000000000000000 same bytes true
 bson-objectid 2038-01-19T03:14:07.000Z
 bson          2038-01-19T03:14:07.000Z
2038-01-19T03:14:08Z 800000000000000000000000 same bytes true
 bson-objectid 1901-12-13T20:45:52.000Z
 bson          2038-01-19T03:14:08.000Z
2040-01-01T00:00:00Z 83aa7e800000000000000000 same bytes true
 bson-objectid 1903-11-25T17:31:44.000Z
 bson          2040-01-01T00:00:00.000Z
END
