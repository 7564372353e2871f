"""Holds a worker of a family of ids, and makes ids by itself: one call for each grant, none for an id.

    pip install grpcio grpcio-reflection grpcio-status
    python3 snowflake_holder.py 127.0.0.1:7700 orders [pki/client-billing]    # after `seqsvr id create orders`

docs/guide/ids-protocol.md has the rules, and what goes wrong without each of them.
"""

import os
import secrets
import socket
import sys
import threading
import time

from sequence import connect, details, methods
from snowflake_layout import make_id, parse_layout

STALE_WORKER, TOO_FAR_AHEAD = 25, 26  # of `Reason` in sequence.proto
# Without a time to wait, no repetition of an acquisition helps after these.
FINAL = {"FAMILY_NOT_FOUND", "INVALID", "CLUSTER_MISMATCH", "LEVEL_TOO_LOW", "REJECTED", "TIME_EXHAUSTED", "NO_WORKER"}
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_ms():
    return time.clock_gettime_ns(CLOCK) // 1_000_000


class Holder:
    """A worker of a family. The threads of a process share it; a forked child makes one of its own."""

    def __init__(self, channel, family, name=None, claimed=None, window_ms=0):
        request, routes = methods(channel, "seqsvr.v1.Sequence")["Routes"]
        self.cluster = (("seqsvr-cluster-tag", routes(request(), timeout=5).cluster[8:].hex()),)
        self.calls, self.family, self.window_ms = methods(channel, "seqsvr.v1.Ids"), family, window_ms
        self.pid, self.lock, self.steps, self.used_epochs = os.getpid(), threading.Lock(), self._keep(), {}
        self.wanted = {"holder": name or f"{socket.gethostname()}-{self.pid}", "worker": claimed}
        self.position, self.capacity, self.until = 0, 1, 0  # the next position; the first tick not granted
        self.held, self.offset_ms, self.ahead, self.most_ahead_ms = None, 0, 0, 0
        self.failure = "no worker is granted yet"

    def next(self, timeout=5.0):
        """Returns an id that is greater than all before. Waits for a tick or a grant until the timeout in seconds."""
        deadline = time.monotonic() + timeout
        while True:
            if os.getpid() != self.pid:
                raise RuntimeError("this holder is closed, or belongs to another process: make another one")
            with self.lock:
                if next(self.steps, self) is self:  # an error has ended the steps
                    self.steps = self._keep()
                tick = self._now_ms() // self.spec.unit_ms if self.until else 0
                position = max(self.position, tick * self.capacity)
                if position < min(self.until, tick + self.ahead + 1) * self.capacity:
                    self.position = position + 1
                    parts = {"time": position // self.capacity, "seq": self.spec.seq_min + position % self.capacity}
                    return make_id(self.fields, secrets.randbits(64), **parts, **self.fixed)
            if time.monotonic() >= deadline:
                raise TimeoutError(f"no id of {self.family}: {self.failure}")
            time.sleep(0.001)

    def close(self):
        """Hands the worker back; otherwise it is free once its grant has passed, as one is that is on its way here.
        Not in a handler of signals, which may have interrupted `next`."""
        if os.getpid() == self.pid:
            with self.lock:
                self.pid, self.steps = None, iter(int, 1)
                self._release()

    def _now_ms(self):
        """The time since the epoch: store time of the last answer, continued with a clock that is never set."""
        return max(boot_ms() + self.offset_ms - self.spec.epoch_ms, 0)

    def _keep(self):
        """Acquires and renews. Each `next` takes a step, which yields while it waits, so that ids continue."""
        while True:
            own = {"family": self.family, "nonce": secrets.token_bytes(16)}  # the same until it is answered
            grant = yield from self._call("AcquireWorker", window_ms=self.window_ms, **own, **self.wanted)
            if grant and grant.epoch > self.used_epochs.get(grant.worker, 0):
                used, self.used_epochs[grant.worker] = -(-self.position // self.capacity), grant.epoch
                self.until = 0  # an error in between leaves no part of two grants
                self.spec, self.fields = grant.family, parse_layout(grant.family.layout)
                self.fixed = {"dc": self.spec.dc, "worker": grant.worker, "lane": grant.lane}
                self.capacity = self.spec.seq_max - self.spec.seq_min + 1
                self.position = max(getattr(grant, "from"), used) * self.capacity  # above the own ids before
                self.held, self.until = own | {"worker": grant.worker, "epoch": grant.epoch}, grant.until
                yield from self._renew(grant, grant)

    def _renew(self, grant, renewed):
        """Renews a grant until its worker is lost: what is left of it is used until another one is there."""
        while True:
            if (renewed.worker, renewed.epoch, renewed.lane) == (grant.worker, grant.epoch, grant.lane):
                self.until, limits = max(self.until, renewed.until), renewed.family.limits
                # Store time was read between the call and its answer: its clock moves no further than that shows.
                least, most = renewed.store_time_ms - boot_ms(), renewed.store_time_ms + 1 - self.sent_ms
                self.offset_ms = min(max(self.offset_ms or most, least), most)
                self.ahead = limits.ahead_ms // self.spec.unit_ms
                self.most_ahead_ms = max(self.most_ahead_ms, limits.ahead_ms)
                ahead_ms = self.position // self.capacity * self.spec.unit_ms - self._now_ms()
                if ahead_ms > self.most_ahead_ms + max(limits.window_ms, self.window_ms):
                    if renewed is not grant:
                        return self._release()
                    # Store time was set back, and of this grant nothing is used: ids continue below earlier ones.
                    self.position = getattr(grant, "from") * self.capacity
                left_ms = self.until * self.spec.unit_ms - self._now_ms()
                yield from self._wait(left_ms / 2000, "the ids of its ticks are used up")
            answer = yield from self._call("RenewWorkers", renewals=[self.held | {"window_ms": self.window_ms}])
            renewed, error = answer.results[0].grant, answer.results[0].error
            if error.reason == TOO_FAR_AHEAD:
                self._release()
            if error.reason in (STALE_WORKER, TOO_FAR_AHEAD):
                return
            if error.reason:
                yield from self._wait(min(error.retry_after_ms / 1000, 1), error.message)

    def _call(self, method, **request):
        """Repeats a call until it is answered, and returns the answer; None after STALE_WORKER."""
        message, call = self.calls[method]
        while True:
            self.sent_ms, answer = boot_ms(), call.future(message(**request), timeout=5, metadata=self.cluster)
            while not answer.done():
                yield
            error = answer.exception()
            if not error:
                return answer.result()
            (reason, seconds), failure = details(error), f"{error.code().name} {error.details()}"
            if reason in FINAL and not seconds and not (self.until and self._now_ms() < self.until * self.spec.unit_ms):
                raise RuntimeError(f"no id of {self.family}: {failure}")
            yield from self._wait(min(seconds or 0, 1), failure)
            if reason == "STALE_WORKER":  # it was granted without an answer, and taken back since
                return None

    def _wait(self, seconds, failure):
        self.failure, end_ms = failure, boot_ms() + max(seconds, 0.1) * 1000
        while boot_ms() < end_ms:
            yield

    def _release(self):
        """Sends a release once no id is made any more, with any answer to it."""
        message, release = self.calls["ReleaseWorker"]
        used = min(-(-self.position // self.capacity), self.until)
        held, self.held, self.until = self.held, None, 0
        if held:
            request = message(used=used, **held)
            release.future(request, timeout=5, metadata=self.cluster).exception()  # waits, and drops an error


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
