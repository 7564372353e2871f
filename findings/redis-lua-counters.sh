#!/usr/bin/env bash
# Redis 7.0.15: INCR inside a Lua script returns the same number again and again
# when ids are above 2^53.
#
# Guess: `return redis.call('INCR', KEYS[1])` in a script gives what INCR gives.
# Seen: replies of integers become Lua numbers, which are doubles, on their way
# through the script. The key itself counts exactly, but 2,000 calls from an id
# of today return two or three different numbers. A script that stores the reply
# stores 7.4122814034987213e+18, and at the greatest counter the script returns
# -9223372036854775808. No call is an error.
# Why it matters: "take an id and do more" in one script is a common way to be
# atomic; above 2^53 it hands the same id to up to 1,024 callers.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill "$(cat "$dir/pid" 2>/dev/null)" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq -o APT::Sandbox::User=root redis-tools=5:7.0.15-1~deb12u10 \
  libjemalloc2=5.3.0-1 liblzf1=3.6-3
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu
cp root/usr/bin/redis-check-rdb redis-server
./redis-server --port 0 --unixsocket "$dir/socket" --save '' --daemonize yes \
  --pidfile "$dir/pid" >server.log
redis() { root/usr/bin/redis-cli -s "$dir/socket" "$@"; }
for _ in $(seq 100); do redis ping >ping.txt 2>&1 && break || sleep 0.1; done

{
  redis set id 7412281403498721280
  echo "INCR $(redis incr id)"
  echo "INCR in a script $(redis eval "return redis.call('INCR', 'id')" 0)"
  echo "GET $(redis get id)"
  redis set id 7412281403498721280
  for _ in $(seq 2000); do
    echo "EVAL \"return redis.call('INCR', 'id')\" 0"
  done | redis | sort -u
  echo "were the answers to 2000 scripts; the key is $(redis get id)"
  redis eval "redis.call('SET', 'copy', redis.call('INCR', 'id'))" 0 >skip.txt
  echo "stored by a script $(redis get copy)"
  redis set id 9223372036854775806
  echo "greatest counter $(redis eval "return redis.call('INCR', 'id')" 0)"
} >seen.txt
diff -u - seen.txt <<'END'
OK
INCR 7412281403498721281
INCR in a script 7412281403498721280
GET 7412281403498721282
OK
7412281403498721280
7412281403498722304
7412281403498723328
were the answers to 2000 scripts; the key is 7412281403498723280
stored by a script 7.4122814034987233e+18
OK
greatest counter -9223372036854775808
END
