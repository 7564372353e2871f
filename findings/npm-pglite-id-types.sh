#!/usr/bin/env bash
# npm @electric-sql/pglite 0.5.16: one column of ids is numbers up to 2^53 and
# BigInt above.
#
# Guess: a bigint column of PostgreSQL is always a text, as in npm pg, or always
# a BigInt.
# Seen: the type follows the value: 9007199254740991 is a number, the next one
# a BigInt. So JSON.stringify works until the first id of 54 bits, and adding 1
# or comparing with === begins to fail there. Ids inside json and jsonb are
# numbers, and are rounded.
# Why it matters: tests with small ids pass; a table whose ids change from a
# sequence to 64 bits with time breaks each reader at that moment.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts @electric-sql/pglite@0.5.16

cat >run.js <<'END'
import('@electric-sql/pglite').then(async ({ PGlite }) => {
  const db = new PGlite();
  for (const id of ['9007199254740991', '9007199254740992', '7412281403498721281']) {
    const query = `SELECT ${id}::int8 AS id, jsonb_build_object('id', ${id}::int8) AS doc`;
    const row = (await db.query(query)).rows[0];
    let json;
    try { json = JSON.stringify({ id: row.id }); } catch (error) { json = error.name; }
    console.log(id, typeof row.id, json, 'in jsonb', JSON.stringify(row.doc));
  }
  await db.close();
});
END
node run.js >seen.txt
diff -u - seen.txt <<'END'
9007199254740991 number {"id":9007199254740991} in jsonb {"id":9007199254740991}
9007199254740992 bigint TypeError in jsonb {"id":9007199254740992}
7412281403498721281 bigint TypeError in jsonb {"id":7412281403498721000}
END
