"""Holds a worker of a family of ids, and makes ids by itself: one call for each grant, none for an id.

    pip install grpcio grpcio-reflection grpcio-status
    python3 snowflake_holder.py 127.0.0.1:7700 orders [pki/client-billing]    # after `seqsvr id create orders`

docs/guide/ids-protocol.md has the rules, and what goes wrong without each of them.
"""

import functools
import os
import secrets
import socket
import sys
import threading
import time
import uuid

import grpc

from sequence import connect, details, methods

STALE_WORKER, TOO_FAR_AHEAD = 25, 26  # of `Reason` in sequence.proto
# Without a time to wait, no repetition of an acquisition helps after these.
FINAL = {"FAMILY_NOT_FOUND", "INVALID", "CLUSTER_MISMATCH", "LEVEL_TOO_LOW", "REJECTED", "TIME_EXHAUSTED", "NO_WORKER"}
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms():
    return time.clock_gettime_ns(CLOCK) // 1_000_000


def parse_layout(text):
    """Returns the fields from the least significant up: name, shift, greatest value, constant, is inverted."""
    fields, shift = [], 0
    for field in reversed(text.removeprefix("unsigned,").split(",")):
        name, size = field.split(":")
        bits, _, constant = size.partition("=")
        fields.append((name.strip("~"), shift, (1 << int(bits)) - 1, int(constant or 0), name.endswith("~")))
        shift += int(bits)
    return fields


def make_id(fields, rand, **parts):
    """Returns the id of these parts. A part that does not fit would change its neighbor, so it is an error."""
    made = 0
    for name, shift, most, constant, is_inverted in fields:
        value = rand & most if name == "rand" else constant if name in ("0", "const") else parts[name]
        if not 0 <= value <= most:
            raise OverflowError(f"{name} must be 0 to {most}, not {value}")
        made |= (value ^ most if is_inverted else value) << shift
        rand >>= most.bit_length() if name == "rand" else 0
    return made


class Holder:
    """A worker of a family. The threads of a process share it; a forked child makes one of its own."""

    def __init__(self, channel, family, name=None, claimed=None, window_ms=0):
        self.calls, self.family = methods(channel, "seqsvr.v1.Ids"), family
        self.claimed, self.window_ms = claimed, window_ms  # None: any worker; 0: as long as the family says
        request, routes = methods(channel, "seqsvr.v1.Sequence")["Routes"]
        self.cluster = (("seqsvr-cluster-tag", routes(request(), timeout=5).cluster[8:].hex()),)
        self.pid = os.getpid()
        self.name = name or f"{socket.gethostname()}-{self.pid}"
        self.nonce, self.grant, self.used_epochs = None, None, {}  # the grant that may be renewed, and its nonce
        self.position, self.until, self.capacity = 0, 0, 1  # next position; first tick not granted
        self.ahead, self.most_ahead_ms = 0, 0  # ticks that may be stamped in front of store time; most so far
        self.clock_offset_ms, self.failure = None, "no worker is granted yet"
        self.lock, self.closed = threading.Lock(), threading.Event()
        self.keeper = threading.Thread(target=self._keep, daemon=True)
        self.keeper.start()

    def next(self, timeout=5.0):
        """Returns an id that is greater than all before. Waits for a tick or a grant until the timeout in seconds."""
        if os.getpid() != self.pid:
            raise RuntimeError(f"this holder belongs to process {self.pid}: make another one in this process")
        deadline = time.monotonic() + timeout
        while True:
            with self.lock:
                now = self._now_tick()
                position = max(self.position, now * self.capacity)
                if position < min(self.until, now + self.ahead + 1) * self.capacity:
                    self.position = position + 1
                    tick, seq = divmod(position, self.capacity)
                    return self.encode(time=tick, seq=self.spec.seq_min + seq, rand=secrets.randbits(64))
            if self.closed.is_set():
                raise RuntimeError(f"no id of {self.family} any more: {self.failure}")
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no id of {self.family}: {self.failure}")
            time.sleep(0.001)

    def close(self):
        """Hands the worker back. Without it, the worker is free once its grant has passed."""
        if os.getpid() == self.pid:
            self.closed.set()
            self.keeper.join()
            self.failure = "the holder was closed"
            self._release()

    def _now_tick(self):
        """The present tick: store time of the last answer, continued with a clock that is never set."""
        if self.clock_offset_ms is None:
            return 0
        return max(boot_ms() + self.clock_offset_ms - self.spec.epoch_ms, 0) // self.spec.unit_ms

    def _call(self, method, **request):
        message, call = self.calls[method]
        sent_ms = boot_ms()
        return sent_ms, call(message(**request), timeout=5, metadata=self.cluster)

    def _keep(self):
        """Acquires and renews. No pause is long: the time of a renewal also passes while the machine is suspended."""
        while not self.closed.is_set():
            try:
                pause = self._renew() if self.grant else self._acquire()
            except grpc.RpcError as error:
                reason, seconds = details(error)
                if reason == "STALE_WORKER" and not self.grant:
                    self.nonce = None  # it was granted without an answer, and taken back
                pause = self._failed(f"{error.code().name} {error.details()}", seconds)
                if reason in FINAL and not seconds and not self.grant:
                    self.closed.set()  # `next` shows why
            self.closed.wait(pause)

    def _failed(self, failure, seconds=None):
        self.failure = failure
        return min(max(seconds or 0, 0.1), 1)

    def _acquire(self):
        self.nonce = self.nonce or uuid.uuid4().bytes  # random, never zero; the same until it is answered
        own = {"family": self.family, "holder": self.name, "nonce": self.nonce, "window_ms": self.window_ms}
        sent_ms, grant = self._call("AcquireWorker", worker=self.claimed, **own)
        if grant.epoch <= self.used_epochs.get(grant.worker, 0):
            self.nonce = None
            return self._failed("an old grant was answered again")
        fixed = {"dc": grant.family.dc, "worker": grant.worker, "lane": grant.lane}
        encode = functools.partial(make_id, parse_layout(grant.family.layout), **fixed)
        with self.lock:
            used = -(-self.position // self.capacity)
            self.used_epochs[grant.worker] = grant.epoch
            self.grant, self.until, self.spec, self.encode = grant, grant.until, grant.family, encode
            self.capacity = self.spec.seq_max - self.spec.seq_min + 1
            self.position = max(getattr(grant, "from"), used) * self.capacity  # above the own ids before
            self._learn(sent_ms, grant)
        return 0

    def _learn(self, sent_ms, grant):
        """Store time was read between the call and its answer: moves the clock no further than that shows."""
        least, most = grant.store_time_ms - boot_ms(), grant.store_time_ms + 1 - sent_ms
        offset = (least + most) // 2 if self.clock_offset_ms is None else self.clock_offset_ms
        self.clock_offset_ms = min(max(offset, least), most)
        self.ahead = grant.family.limits.ahead_ms // self.spec.unit_ms
        self.most_ahead_ms = max(self.most_ahead_ms, grant.family.limits.ahead_ms)
        self.failure = "the ids of its ticks are used up"
        self.renew_at_ms = boot_ms() + max((self.until - self._now_tick()) * self.spec.unit_ms // 2, 100)

    def _renew(self):
        """Renews from half of the time left on. Returns the time to the next look, in seconds."""
        early_ms, grant = self.renew_at_ms - boot_ms(), self.grant
        if early_ms > 0:
            return min(early_ms / 1000, 1)
        own = {"family": self.family, "worker": grant.worker, "epoch": grant.epoch, "nonce": self.nonce}
        sent_ms, answer = self._call("RenewWorkers", renewals=[own | {"window_ms": self.window_ms}])
        answer = answer.results[0]
        renewed, error = answer.grant, answer.error
        if (renewed.worker, renewed.epoch, renewed.lane) == (grant.worker, grant.epoch, grant.lane):
            with self.lock:
                self.until = max(self.until, renewed.until)
                self._learn(sent_ms, renewed)
                ahead_ms = (self.position // self.capacity - self._now_tick()) * self.spec.unit_ms
            if ahead_ms <= self.most_ahead_ms + max(renewed.family.limits.window_ms, self.window_ms):
                return 0
        elif error.reason == STALE_WORKER:
            self.grant = self.nonce = None  # what is left of the grant is used until another one is there
            return 0
        elif error.reason != TOO_FAR_AHEAD:
            return self._failed(error.message, error.retry_after_ms / 1000)
        self._release()  # store time was set back: ids continue at store time, below earlier ones
        self.position = 0
        return 0

    def _release(self):
        with self.lock:  # from here on no id is made, with any answer to the release
            grant, nonce, self.grant, self.nonce, self.until = self.grant, self.nonce, None, None, 0
            used = -(-self.position // self.capacity)
        if grant:
            own = {"family": self.family, "worker": grant.worker, "epoch": grant.epoch, "nonce": nonce}
            try:
                self._call("ReleaseWorker", used=used, **own)
            except grpc.RpcError:
                pass  # the worker is free once its grant has passed


def main(address, family, tls_dir=None):
    holder = Holder(connect(address, tls_dir), family)
    try:
        for _ in range(5):
            print(holder.next())
    except (RuntimeError, TimeoutError) as error:
        sys.exit(str(error))
    finally:
        holder.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
