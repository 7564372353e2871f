"""redis-py against the Redis endpoint on this port. `conform`: every kind of command, errors, pipelines.
`run`: takes numbers until its input ends, also after errors, and prints each as `key number`."""

import sys
import threading
import time

import redis

PORT = int(sys.argv[1])


def expect_error(text, call):
    try:
        answer = call()
    except redis.ResponseError as error:
        assert text in str(error), f"{text!r} is not in {error}"
    else:
        raise AssertionError(f"no error, but {answer}")


def check_conformance(protocol):
    r = redis.Redis(port=PORT, protocol=protocol)
    p = f"py{protocol}:"
    assert r.ping() and r.echo("hello") == b"hello"
    assert r.get(p + "a") is None and r.exists(p + "a") == 0
    assert [r.incr(p + "a"), r.incr(p + "a", 10), r.incrby(p + "a", 5)] == [1, 11, 16]
    assert r.get(p + "a") == b"16" and r.type(p + "a") == b"string"
    assert r.mget(p + "a", p + "none") == [b"16", None]
    assert r.set(p + "a", 100) and r.incr(p + "a") == 101
    expect_error("101 already, above 50", lambda: r.set(p + "a", 50))
    expect_error("EX is not supported", lambda: r.set(p + "a", 500, ex=5))
    expect_error("numbers only rise", lambda: r.decr(p + "a"))
    expect_error("numbers only rise", lambda: r.delete(p + "a"))
    expect_error("not an integer", lambda: r.set(p + "a", "text"))
    expect_error("there is no namespace", lambda: r.incr("@nosuch/1"))
    expect_error("1 to 128 bytes", lambda: r.incr("k" * 129))
    assert r.pipeline().incr(p + "t").incr(p + "t", 5).get(p + "t").execute() == [1, 6, b"6"]
    expect_error("numbers only rise", lambda: r.pipeline().incr(p + "t").decr(p + "t").execute())
    assert r.incr(p + "t") == 7
    expect_error("numbers of its own", lambda: r.execute_command("WATCH", p + "t"))
    assert r.incr("@default/4200000%d" % protocol) == 1
    assert r.info()["redis_mode"] == "standalone" and r.client_id() > 0
    assert r.client_setname("me") and r.client_getname() in ("me", b"me")
    odd = b"\r\n\x00\xff $*:@" + p.encode()
    assert [r.incr(odd), r.incr(odd), r.get(odd)] == [1, 2, b"2"]
    many = r.pipeline(transaction=False)
    for n in range(10_000):
        many.incr(p + "many")
    assert many.execute() == list(range(1, 10_001))
    mixed = r.pipeline(transaction=False)
    for n in range(3_000):
        mixed.incr(p + "x").get(p + "x").decr(p + "x")
    answers = mixed.execute(raise_on_error=False)
    assert answers[0::3] == list(range(1, 3_001))
    assert [int(n) for n in answers[1::3]] == answers[0::3]
    assert all(isinstance(error, redis.ResponseError) for error in answers[2::3])


def take_numbers():
    r = redis.Redis(port=PORT, socket_timeout=10)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    while not ended.is_set():
        for key in [f"run{n}" for n in range(20)]:
            try:
                print(key, r.incr(key), flush=True)
            except redis.RedisError:
                time.sleep(0.05)


if sys.argv[2] == "conform":
    check_conformance(2)
    check_conformance(3)
else:
    take_numbers()
