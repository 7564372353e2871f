#!/usr/bin/env bash
# Base62: two alphabets under one name, and an id of 64 bits that comes back
# rounded.
#
# Guess: "base62" is digits, upper case, lower case; one package reads what
# another wrote, or reports an error.
# Seen: npm base62 2.0.2 and base62-ts 1.3.13 put lower case before upper case,
# PyPI pybase62 1.0.0 upper case first. Every text of one is valid in the other
# and means another number. npm base62 reads 11 characters of a 64-bit id to a
# rounded number, without an error.
# Why it matters: an id in base62 of another system is decoded to a plausible
# wrong id. With lower case first, the order of texts is not the order of ids.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts base62@2.0.2 base62-ts@1.3.13
python3 -m pip install --quiet --no-deps --target lib pybase62==1.0.0

cat >run.js <<'END'
const base62 = require('base62');
const ts = require('base62-ts');
console.log('npm base62   ', base62.encode(7412281403498721), base62.decode('XwnMzHgQb'));
console.log('npm base62-ts', ts.encode(7412281403498721), ts.decode('XwnMzHgQb'));
console.log('npm base62 of 64 bits', BigInt(base62.decode('8pY8Pa2qZJf')).toString());
END
cat >run.py <<'END'
import base62

print("PyPI pybase62 ", base62.encode(7412281403498721), base62.decode("xWNmZhGqB"))
print("PyPI pybase62 in the other alphabet, 64 bits", base62.decode(
    "8pY8Pa2qZJf", charset=base62.CHARSET_INVERTED))
END
node run.js >seen.txt
PYTHONPATH=lib python3 run.py >>seen.txt
diff -u - seen.txt <<'END'
npm base62    xWNmZhGqB 12996108804186492
npm base62-ts xWNmZhGqB 12996108804186492
npm base62 of 64 bits 7065953575864584192
PyPI pybase62  XwnMzHgQb 12996108804186491
PyPI pybase62 in the other alphabet, 64 bits 7065953575864583609
END
