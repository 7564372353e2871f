#!/usr/bin/env bash
# JSON in JavaScript: a rounded 64-bit id need not be a multiple of the spacing
# of doubles (Node.js 20; ids of npm @sapphire/snowflake 3.5.5).
#
# Guess: an id above 2^53 that passed through a JavaScript number is a multiple
# of a power of two (1,024 for ids of today), so a check for that finds it.
# Seen: JavaScript prints the fewest digits that read back as the same double,
# then zeros. The printed 7412281403498303000 is no multiple of 1,024, nor of
# 16, although the double behind it is. The test that works: read the text as
# a double and print it again; a rounded id does not change.
# Why it matters: who looks for damaged ids in logs or tables by low zero bits
# finds almost none of them; three decimal zeros at the end are the sign.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts @sapphire/snowflake@3.5.5

cat >run.js <<'END'
const { Snowflake } = require('@sapphire/snowflake');
const generator = new Snowflake(0);
let multiples = 0, unchanged = 0, zeros = 0;
const count = 10000;
for (let i = 0; i < count; i++) {
  const id = generator.generate({ timestamp: 1767225600123 + i });
  const text = JSON.parse(JSON.stringify({ id: Number(id) })).id.toString();
  if (i < 3) console.log(id.toString(), '->', text);
  if (BigInt(text) % 1024n === 0n) multiples += 1;
  if (Number(text).toString() === text) unchanged += 1;
  if (text.endsWith('000')) zeros += 1;
}
console.log('of', count, 'multiples of 1024:', multiples);
console.log('end with 000:', zeros, 'unchanged by a second rounding:', unchanged);
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
7412281403498303488 -> 7412281403498303000
7412281403502497793 -> 7412281403502498000
7412281403506692098 -> 7412281403506692000
of 10000 multiples of 1024: 80
end with 000: 10000 unchanged by a second rounding: 10000
END
