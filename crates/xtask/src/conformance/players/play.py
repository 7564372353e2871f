"""Plays the steps of a program with one Python client, and prints each reply as a line of JSON:
the number of the step, the number of its command or null, and the reply.

Arguments: the client, its RESP version, the port, the file of the program."""

import asyncio
import json
import sys

from render import render


class SyncPlayer:
    """redis-py, or valkey-py: the same calls."""

    def __init__(self, library, port, protocol):
        module = __import__(library)
        cls = getattr(module, {"redis": "Redis", "valkey": "Valkey"}[library])
        self.client = cls(port=port, protocol=protocol, single_connection_client=True)

    def words(self, words):
        # The library finds the type of a reply by the name of the command, which may be two words.
        joined = " ".join(words[:2]).upper()
        name = words[0].upper()
        known = joined in self.client.response_callbacks or name == "COMMAND"
        return [joined, *words[2:]] if known else [name, *words[1:]]

    async def call(self, words):
        return self.client.execute_command(*self.words(words))

    async def batch(self, commands, is_transaction, raises):
        pipe = self.client.pipeline(transaction=is_transaction)
        for words in commands:
            pipe.execute_command(*self.words(words))
        return pipe.execute(raise_on_error=raises)


class CoredisPlayer:
    """coredis: its methods where it has one for the command, or else a plain request."""

    METHODS = {
        "incr": lambda c, key: c.incr(key),
        "incrby": lambda c, key, n: c.incrby(key, int(n)),
        "get": lambda c, key: c.get(key),
        "set": lambda c, key, value: c.set(key, value),
        "mget": lambda c, *keys: c.mget(keys),
        "exists": lambda c, *keys: c.exists(keys),
        "type": lambda c, key: c.type(key),
        "ttl": lambda c, key: c.ttl(key),
        "persist": lambda c, key: c.persist(key),
        "setnx": lambda c, key, value: c.setnx(key, value),
        "getset": lambda c, key, value: c.getset(key, value),
        "ping": lambda c: c.ping(),
        "echo": lambda c, text: c.echo(text),
        "time": lambda c: c.time(),
        "role": lambda c: c.role(),
        "client id": lambda c: c.client_id(),
        "client info": lambda c: c.client_info(),
        "client list": lambda c: c.client_list(),
        "client getname": lambda c: c.client_getname(),
        "config get": lambda c, name: c.config_get([name]),
        "info": lambda c: c.info(),
    }

    def __init__(self, port, protocol):
        import coredis

        self.client = coredis.Redis(port=port, verify_version=False, max_connections=1)

    def request(self, target, words):
        from coredis.response._callbacks import NoopCallback

        two_words, name = " ".join(words[:2]).lower(), words[0].lower()
        for key, arguments in ((two_words, words[2:]), (name, words[1:])):
            method = self.METHODS.get(key)
            try:
                if method:
                    return method(target, *arguments)
            except (TypeError, ValueError):
                pass
        return target.create_request(
            words[0].encode(), *words[1:], callback=NoopCallback(), execution_parameters={}
        )

    async def call(self, words):
        return await self.request(self.client, words)

    async def batch(self, commands, is_transaction, raises):
        pipe = self.client.pipeline(transaction=is_transaction, raise_on_error=raises)
        async with pipe:
            for words in commands:
                self.request(pipe, words)
        return pipe.results


class GlidePlayer:
    """valkey-glide: custom commands, whose replies it converts by the name of the command."""

    def __init__(self, port, protocol):
        import glide

        self.glide, self.port, self.protocol = glide, port, protocol
        glide.Logger.set_logger_config(glide.LogLevel.OFF)

    async def open(self):
        version = {2: self.glide.ProtocolVersion.RESP2, 3: self.glide.ProtocolVersion.RESP3}
        config = self.glide.GlideClientConfiguration(
            [self.glide.NodeAddress("127.0.0.1", self.port)],
            protocol=version[self.protocol],
            request_timeout=10_000,
        )
        self.client = await self.glide.GlideClient.create(config)

    async def call(self, words):
        return await self.client.custom_command(words)

    async def batch(self, commands, is_transaction, raises):
        batch = self.glide.Batch(is_atomic=is_transaction)
        for words in commands:
            batch.custom_command(words)
        return await self.client.exec(batch, raise_on_error=raises)


async def play_step(player, step):
    """Returns pairs: the number of a command, or None for all of them, and its reply."""
    kind, commands = step["kind"], step["commands"]
    try:
        if kind == "call":
            return [(0, await player.call(commands[0]))]
        raises = kind.endswith("!")
        replies = await player.batch(commands, kind.startswith("transaction"), raises)
        if len(replies) == len(commands):
            return list(enumerate(replies))
        return [(None, replies)]
    except Exception as error:
        return [(0 if kind == "call" else None, error)]


def show(step_number, command, text):
    print(json.dumps([step_number, command, text]), flush=True)


def play_wire(port, protocol, steps):
    from wire import Wire

    player = Wire(port, protocol)
    for number, step in enumerate(steps):
        shapes = step["shapes"]
        for command, reply in player.play(step["kind"], step["commands"]):
            shape = command is not None and shapes[command]
            show(number, command, reply.render(shape))


async def play_library(player, steps):
    if hasattr(player, "open"):
        await player.open()
    for number, step in enumerate(steps):
        if step["kind"] == "wire":
            continue
        for command, reply in await play_step(player, step):
            shape = command is not None and step["shapes"][command]
            show(number, command, render(reply, shape))


async def main():
    client, protocol, port, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    with open(path) as file:
        steps = json.load(file)
    if client == "wire":
        return play_wire(port, protocol, steps)
    if client in ("redis", "valkey"):
        return await play_library(SyncPlayer(client, port, protocol), steps)
    if client == "glide":
        return await play_library(GlidePlayer(port, protocol), steps)
    player = CoredisPlayer(port, protocol)
    async with player.client:
        await play_library(player, steps)


asyncio.run(main())
