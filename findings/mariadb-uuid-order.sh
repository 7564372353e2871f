#!/usr/bin/env bash
# MariaDB 10.11.19: ORDER BY of a UUID column compares the last group first for
# versions 1 to 5, and the first group first for version 7.
#
# Guess: UUIDs sort as their texts, or as their 16 bytes; both are one order.
# Seen: versions 1 to 5 are stored with their groups turned round, the node first,
# and versions 6 and 7 as they are; all are compared by the stored bytes. A
# column that holds versions 4 and 7 is in the order of neither text nor time.
# The bytes that CAST gives are in the order of the text, so ORDER BY differs
# between the column and its cast.
# Why it matters: a program that pages through such a table by "greater than the
# last UUID that I have" and sorts by itself can skip rows; an index of version 4
# that became one of version 7 mixes both.
set -euo pipefail
dir=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || { kill "$pid"; wait "$pid" || true; }; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq -o APT::Sandbox::User=root mariadb-server-core=1:10.11.19-0+deb12u1 \
  mariadb-client-core=1:10.11.19-0+deb12u1 libaio1=0.3.113-4 liburing2=2.3-3 libnuma1=2.0.16-1
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu
mkdir data tmp
root/usr/sbin/mariadbd --no-defaults --user=root --skip-grant-tables --skip-networking \
  --datadir="$dir/data" --tmpdir="$dir/tmp" --socket="$dir/socket" \
  --lc-messages-dir="$dir/root/usr/share/mysql" >server.log 2>&1 &
pid=$!
query() { root/usr/bin/mariadb --no-defaults -S "$dir/socket" --skip-column-names "$@"; }
for _ in $(seq 100); do query -e 'SELECT 1' >ping.txt 2>&1 && break || sleep 0.2; done

query >seen.txt <<'END'
CREATE DATABASE test_order;
USE test_order;
CREATE TABLE ids (id UUID PRIMARY KEY);
INSERT INTO ids VALUES
  ('01a3185c-4000-7000-9000-000000000009'), ('01a3185c-5000-7000-8000-000000000001'),
  ('6bd19fe7-7b3d-45a0-bb07-000000000000'), ('ffffffff-7b3d-4000-8b07-000000000002'),
  ('00000000-7b3d-4000-9b07-f00000000003');
SELECT 'by id', id FROM ids ORDER BY id;
SELECT 'by bytes', id FROM ids ORDER BY CAST(id AS BINARY(16));
END
diff -u - seen.txt <<'END'
by id	6bd19fe7-7b3d-45a0-bb07-000000000000
by id	ffffffff-7b3d-4000-8b07-000000000002
by id	01a3185c-4000-7000-9000-000000000009
by id	01a3185c-5000-7000-8000-000000000001
by id	00000000-7b3d-4000-9b07-f00000000003
by bytes	00000000-7b3d-4000-9b07-f00000000003
by bytes	01a3185c-4000-7000-9000-000000000009
by bytes	01a3185c-5000-7000-8000-000000000001
by bytes	6bd19fe7-7b3d-45a0-bb07-000000000000
by bytes	ffffffff-7b3d-4000-8b07-000000000002
END
