"""The player without a library: sends words as RESP2 or RESP3 requests, and reads every reply."""

import re
import socket

from render import render

NAME = re.compile(r"[a-z_-]{2,}")
END = b"the-end-of-a-step"


class Closed(Exception):
    """The server closed the connection."""


class Reply:
    """A reply as it is on the wire: its type byte, and its value."""

    def __init__(self, kind, value):
        self.kind = kind
        self.value = value

    def render(self, shape):
        if self.kind in "-!":
            return f"{self.kind}{self.value}"
        if self.value is None:
            return self.kind + "nil"
        if self.kind not in "*~>%":
            return self.kind + render(self.value, shape)
        names, values = self.value[::2], self.value[1::2]
        has_names = all(item.kind in "$+" and NAME.fullmatch(item.value or "") for item in names)
        if self.kind == "%" or (shape and values and len(names) == len(values) and has_names):
            pairs = zip(names, values)
            pairs = (f"{a.render(False)}: {b.render_nested(shape)}" for a, b in pairs)
            return self.kind + "{" + ", ".join(pairs) + "}"
        return self.kind + "[" + ", ".join(item.render(shape) for item in self.value) + "]"

    def render_nested(self, shape):
        is_list = self.kind in "*~%"
        return f"{self.kind}…" if shape and is_list else self.render(shape)


class Connection:
    def __init__(self, port, protocol):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.file = self.socket.makefile("rb")
        if protocol == 3:
            self.send([["HELLO", "3"]])
            self.read()

    def send(self, commands):
        parts = []
        for words in commands:
            parts.append(b"*%d\r\n" % len(words))
            for word in words:
                word = word if isinstance(word, bytes) else word.encode()
                parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise Closed
        kind, rest = chr(line[0]), line[1:-2].decode("latin-1")
        if kind in "$!=":
            if rest == "-1":
                return Reply(kind, None)
            body = self.file.read(int(rest) + 2)[:-2].decode("latin-1")
            return Reply(kind, body)
        if kind in "*~>%":
            if rest == "-1":
                return Reply(kind, None)
            count = int(rest) * (2 if kind == "%" else 1)
            return Reply(kind, [self.read() for _ in range(count)])
        return Reply(kind, int(rest) if kind == ":" else None if kind == "_" else rest)

    def close(self):
        self.file.close()
        self.socket.close()


class Wire:
    """Plays a step: each command of it, and what the server answers until the end of the step."""

    def __init__(self, port, protocol):
        self.port, self.protocol = port, protocol
        self.connection = Connection(port, protocol)

    def play(self, kind, commands):
        """Returns pairs: the number of a command, or None for the whole step, and a reply."""
        if kind == "wire":
            connection = Connection(self.port, self.protocol)
            try:
                return number(self.exchange(connection, commands), len(commands))
            finally:
                connection.close()
        if not kind.startswith("transaction"):
            return number(self.exchange(self.connection, commands), len(commands))
        replies = self.exchange(self.connection, [["MULTI"], *commands, ["EXEC"]])
        if len(replies) != len(commands) + 2:
            return number(replies, None)
        multi, *queued, executed = replies
        is_whole = executed.kind == "*" and len(executed.value or []) == len(commands)
        executed = enumerate(executed.value) if is_whole else [(None, executed)]
        return [(None, multi), *enumerate(queued), *executed]

    def exchange(self, connection, commands):
        replies = []
        try:
            connection.send([*commands, ["ECHO", END]])
            while True:
                reply = connection.read()
                if reply.kind == "$" and reply.value == END.decode():
                    return replies
                replies.append(reply)
        except (Closed, ConnectionError):
            return [*replies, Reply("(", "closed)")]
        except TimeoutError:
            return [*replies, Reply("(", "no more replies)")]


def number(replies, expected):
    """Numbers the replies, if each command has one."""
    return [(i if len(replies) == expected else None, reply) for i, reply in enumerate(replies)]
