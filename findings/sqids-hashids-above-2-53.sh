#!/usr/bin/env bash
# npm sqids 0.3.0 and hashids 2.3.0: a short id of a 64-bit number, made in
# Python, is decoded to a rounded number by one, and hidden as an empty text by
# the other.
#
# Guess: both are published with one algorithm for all languages, so what Python
# encodes, JavaScript decodes, or says that it cannot.
# Seen: sqids of npm refuses to encode above 2^53 but decodes such texts without
# an error to the rounded double; PyPI sqids 0.5.2 goes to 2^63 and hashids 1.3.1
# further. hashids of npm returns an empty text, no error, for a number above
# 2^53; with a BigInt it agrees with Python, and decodes to a BigInt.
# Why it matters: the row that a link of a Python service names is not found, or
# is another row, in a JavaScript service; an empty text is a valid path.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts sqids@0.3.0 hashids@2.3.0
python3 -m pip install --quiet --no-deps --target lib sqids==0.5.2 hashids==1.3.1

cat >run.js <<'END'
const Sqids = require('sqids').default ?? require('sqids');
const Hashids = require('hashids').default ?? require('hashids');
const sqids = new Sqids(), hashids = new Hashids('salt');
const exact = 7412281403498721281n;
console.log('sqids decode', sqids.decode('Lg1hSGbv2AD0').map(String));
try { sqids.encode([Number(exact)]); } catch (error) { console.log('sqids encode', error.message); }
console.log('hashids of a number', JSON.stringify(hashids.encode(Number(exact))));
console.log('hashids of a BigInt', hashids.encode(exact));
console.log('hashids decode', hashids.decode(hashids.encode(exact)));
END
cat >run.py <<'END'
import hashids
import sqids

print("PyPI sqids  ", sqids.Sqids().encode([7412281403498721281]))
print("PyPI hashids", hashids.Hashids("salt").encode(7412281403498721281))
END
node run.js >seen.txt
PYTHONPATH=lib python3 run.py >>seen.txt
diff -u - seen.txt <<'END'
sqids decode [ '7412281403498721000' ]
sqids encode Encoding supports numbers between 0 and 9007199254740991
hashids of a number ""
hashids of a BigInt jL06r9WNJqlev
hashids decode [ 7412281403498721281n ]
PyPI sqids   Lg1hSGbv2AD0
PyPI hashids jL06r9WNJqlev
END
