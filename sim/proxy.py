"""TCP proxies between Outcry and its engines, and in front of its replicas, that can stall.

Run as `python -m sim.proxy LINES`, a separate process. LINES is JSON, `[{"name": …, "port": …, "to": [ports]}]`. A
connection goes to a random one of these ports that accepts it. The process prints a line once all ports listen. Then it
reads commands from standard input: `stall NAME` (connections stay open without data), `go NAME`, `cut NAME`.
"""

import asyncio
import json
import random
import sys
from contextlib import suppress
from subprocess import PIPE, Popen
from typing import Self

import uvloop

_CHUNK = 128 * 1024


class _Line:
    def __init__(self, port: int, to: list[int]) -> None:
        self.port, self._to = port, to
        self.open = asyncio.Event()
        self.open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until it ends."""
        await self.open.wait()
        for port in random.sample(self._to, len(self._to)):
            with suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.close()
            return
        await asyncio.gather(self._carry(reader, there[1]), self._carry(there[0], writer))

    def cut(self) -> None:
        """Break every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while data := await reader.read(_CHUNK):
                await self.open.wait()
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):  # uvloop raises RuntimeError for a closed connection
            writer.transport.abort()
        finally:
            self._writers.discard(writer)


async def _run(lines_json: str) -> None:
    lines = {one["name"]: _Line(one["port"], one["to"]) for one in json.loads(lines_json)}
    for line in lines.values():
        await asyncio.start_server(line.take, "127.0.0.1", line.port)
    print("ready", flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while command := await reader.readline():
        what, name = command.decode().split()
        match what:
            case "stall":
                lines[name].open.clear()
            case "go":
                lines[name].open.set()
            case _:
                lines[name].cut()


class Proxy:
    """The proxy process, as a context manager. `lines`: name to (port, target ports)."""

    def __init__(self, lines: dict[str, tuple[int, list[int]]]) -> None:
        self._connections = json.dumps(
            [{"name": name, "port": port, "to": to} for name, (port, to) in lines.items()]
        )
        self._process: Popen[str]

    def __enter__(self) -> Self:
        self._process = Popen(
            [sys.executable, "-m", "sim.proxy", self._connections], stdin=PIPE, stdout=PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def stall(self, name: str) -> None:
        """Stop forwarding data."""
        self._report(f"stall {name}")

    def go(self, name: str) -> None:
        """Resume forwarding data."""
        self._report(f"go {name}")

    def cut(self, name: str) -> None:
        """Break all connections."""
        self._report(f"cut {name}")

    def _report(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()


if __name__ == "__main__":
    uvloop.run(_run(sys.argv[1]))
