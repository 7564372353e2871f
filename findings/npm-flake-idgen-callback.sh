#!/usr/bin/env bash
# npm flake-idgen 1.4.0: with a callback, a clock that was set back raises
# ReferenceError instead of waiting.
#
# Guess: `next(callback)` waits until the clock has caught up, as it waits at a
# full millisecond, and reports trouble through the callback. That is the form
# that the package's own error message recommends.
# Seen: the call throws "self is not defined" in Node.js 20; the callback is
# never called. Without a callback the same call throws the well-worded
# "Clock moved backwards". A full millisecond does wait and calls back.
# Why it matters: a step back of 1 ms becomes an exception where the caller
# expects only a callback, so it may end the process.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts flake-idgen@1.4.0

cat >run.js <<'END'
let now = 1800000000000;
Date.now = () => now;
const FlakeId = require('flake-idgen');
const attempt = (name, call) => {
  try { call(); console.log(name, 'returned'); }
  catch (error) { console.log(name, error.name + ':', error.message.slice(0, 40)); }
};
const generator = new FlakeId({ id: 5 });
generator.next();
now -= 1;
attempt('set back, no callback:', () => generator.next());
attempt('set back, callback:', () => generator.next(() => console.log('called')));
now += 1;
for (let i = 0; i < 4095; i++) generator.next();
attempt('full, no callback:', () => generator.next());
attempt('full, callback:', () => generator.next(() => console.log('called back')));
now += 1;
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
set back, no callback: Error: Clock moved backwards. Refusing to gener
set back, callback: ReferenceError: self is not defined
full, no callback: Error: Sequence exceeded its maximum value. Pro
full, callback: returned
called back
END
