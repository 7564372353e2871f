"""Makes ids until SIGTERM, and appends them to a file: 8 bytes each, the low ones first. Or compares the ids of a page.

    make_ids.py hold ADDRESS FAMILY FILE NAME WINDOW_MS [WORKER]    with a worker of its own, which it may claim
    make_ids.py call ADDRESS FAMILY FILE    by calls of NextIds
    make_ids.py page FILE
"""

import os
import signal
import struct
import sys
import time

from sequence import connect, methods
from snowflake_holder import Holder
from snowflake_layout import make_id, parse_layout

TIMEOUT = 20
BATCH = 50
signals = []


def append_until_stopped(path, next_ids):
    with open(path, "ab", buffering=0) as file:
        while not signals:
            file.write(struct.pack(f"<{BATCH}Q", *next_ids()))
            time.sleep(0.001)


def hold(address, family, path, name, window_ms, claimed=None):
    holder = Holder(connect(address), family, name, claimed and int(claimed), int(window_ms))
    append_until_stopped(path, lambda: [holder.next(TIMEOUT) for _ in range(BATCH)])
    holder.close()


def call(address, family, path):
    (message, next_ids), last = methods(connect(address), "seqsvr.v1.Ids")["NextIds"], 0

    def take():
        nonlocal last
        ids = next_ids(message(family=family, count=BATCH, floor=last or None), timeout=TIMEOUT).ids
        last = ids[-1]
        return ids

    append_until_stopped(path, take)


def page(path):
    compared = 0
    for line in open(path, encoding="utf-8"):
        cells = [cell.strip(" `") for cell in line.split("|")[1:-1]]
        if len(cells) == 8 and cells[-1].isdigit():
            tick, dc, worker, lane, seq, rand, expected = map(int, cells[1:])
            made = make_id(parse_layout(cells[0]), rand, time=tick, dc=dc, worker=worker, lane=lane, seq=seq)
            assert made == expected, f"{made}, not {line}"
            compared += 1
    assert compared > 0, f"{path} has no ids"


signal.signal(signal.SIGTERM, lambda *signal: signals.append(signal))
{"hold": hold, "call": call, "page": page}[sys.argv[1]](*sys.argv[2:])
