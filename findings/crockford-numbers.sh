#!/usr/bin/env bash
# npm crockford-base32 2.1.0 and PyPI base32-crockford 0.3.0 write a number
# differently.
#
# Guess: Crockford's base 32 writes 1234 as 16J, digits from the right, and
# each package reads what the other writes.
# Seen: the package of npm turns the number into whole bytes and writes those
# from the left, filling the last digit with zero bits: 1234 is 0K90. It reads
# 16J, the form of PyPI, as 2468, without an error. Its text of 0 is empty.
# Why it matters: an id that one side writes in Crockford's base 32 is another
# id on the other side. A text of 13 digits for 64 bits has its unused bit on
# the left in one package and on the right in the other.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts crockford-base32@2.1.0
python3 -m pip install --quiet --no-deps --target lib base32-crockford==0.3.0

cat >run.js <<'END'
const { CrockfordBase32 } = require('crockford-base32');
for (const id of [0n, 32n, 1234n, 7412281403498721280n])
  console.log('npm ', id.toString(), '->', JSON.stringify(CrockfordBase32.encode(id)));
for (const text of ['16J', '6DQDPN8FCCW00'])
  console.log('npm ', text, '->', CrockfordBase32.decode(text, { asNumber: true }).toString());
END
cat >run.py <<'END'
import base32_crockford as pypi

for id in [0, 32, 1234, 7412281403498721280]:
    print("PyPI", id, "->", pypi.encode(id))
for text in ["16J", "0K90"]:
    print("PyPI", text, "->", pypi.decode(text))
END
node run.js >seen.txt
PYTHONPATH=lib python3 run.py >>seen.txt
diff -u - seen.txt <<'END'
npm  0 -> ""
npm  32 -> "40"
npm  1234 -> "0K90"
npm  7412281403498721280 -> "CVEVDAGYRSR00"
npm  16J -> 2468
npm  6DQDPN8FCCW00 -> 3706140701749360640
PyPI 0 -> 0
PyPI 32 -> 10
PyPI 1234 -> 16J
PyPI 7412281403498721280 -> 6DQDPN8FCCW00
PyPI 16J -> 1234
PyPI 0K90 -> 19744
END
