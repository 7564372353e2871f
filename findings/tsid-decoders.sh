#!/usr/bin/env bash
# npm tsid-ts 0.0.9 and PyPI tsidpy 1.1.5: a TSID with the letters O and I is
# one number in Python, another in JavaScript.
#
# Guess: a TSID is 13 Crockford digits, whose decoder reads O as 0 and I as 1.
# Seen: Python reads O and I as Crockford says. JavaScript subtracts one for
# each, and the borrow changes the digits before it.
# Why it matters: a TSID that a person typed, with the letter O for the digit,
# names another row.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts tsid-ts@0.0.9
python3 -m pip install --quiet --no-deps --target lib tsidpy==1.1.5

cat >run.js <<'END'
const { TSID } = require('tsid-ts');
const texts = ['0AXS751X00W7C', 'OAXS75IX00W7C'];
for (const text of texts) {
  const id = TSID.fromString(text);
  console.log('tsid-ts', text, '->', id.toCanonicalString(), id.number.toString());
}
END
cat >run.py <<'END'
from tsidpy import TSID

for text in ["0AXS751X00W7C", "OAXS75IX00W7C"]:
    id = TSID.from_string(text)
    print("tsidpy ", text, "->", id.to_string(), id.number)
END
node run.js >seen.txt
PYTHONPATH=lib python3 run.py >>seen.txt
diff -u - seen.txt <<'END'
tsid-ts 0AXS751X00W7C -> 0AXS751X00W7C 393826547217232108
tsid-ts OAXS75IX00W7C -> FAXS74ZX00W7C 17687649114172453100
tsidpy  0AXS751X00W7C -> 0AXS751X00W7C 393826547217232108
tsidpy  OAXS75IX00W7C -> 0AXS751X00W7C 393826547217232108
END
