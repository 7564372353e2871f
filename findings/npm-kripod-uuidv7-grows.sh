#!/usr/bin/env bash
# npm @kripod/uuidv7 0.3.4: the 4,097th UUID of a millisecond has 37 characters.
#
# Guess: a UUID always has 36 characters; the
# package says that it ignores a clock that is set back.
# Seen: the counter is printed with at least three hexadecimal digits, and
# nothing stops it at fff. Call 4,097 prints 1000, all later digits move by
# one, and the last group has 13 digits. No error is raised. After the clock
# is set back the package stays in the last millisecond and counts there, so a
# set-back of a second reaches this at 4,096 UUIDs of that second.
# Why it matters: such a text is no UUID to a database or a parser, and one
# that cuts it to 36 characters reads a variant field of counter digits.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts @kripod/uuidv7@0.3.4

cat >run.js <<'END'
const { webcrypto } = require('crypto');
global.crypto ??= webcrypto;
let now = 1800000000000;
Date.now = () => now;
const { uuidv7 } = require('@kripod/uuidv7');
// The first 22 characters hold time, version and counter; the rest is random.
const show = (call, id) => console.log(call, id.slice(0, 19), 'length', id.length);
let id;
for (let call = 1; call <= 4097; call++) {
  id = uuidv7();
  if (call === 1 || call >= 4096) show(call, id);
}
now += 1;
show('next millisecond', uuidv7());
now -= 1000;
for (let call = 1; call <= 4096; call++) id = uuidv7();
show('4,096 calls after a set-back', id);
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
1 01a3185c-5000-7000- length 36
4096 01a3185c-5000-7fff- length 36
4097 01a3185c-5000-7100- length 37
next millisecond 01a3185c-5001-7000- length 36
4,096 calls after a set-back 01a3185c-5001-7100- length 37
END
