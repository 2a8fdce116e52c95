"""Webhook endpoints on many loopback IP addresses, in a separate process: `python -m bench.endpoints FOLDER HOSTS`.

It prints its port. For each line on its standard input it prints the requests received since the previous one. A
request has the time of its first byte (ns, monotonic) and the keys of the alerts in it. Paths: `/ok/…`, `/close/…`
(closes the connection), `/500/…`, `/hang/…`. Its certificate uses an elliptic curve and, like those of public hosts, is
issued by an intermediate authority. It is valid for an hour.
"""

import asyncio
import re
import sys
from pathlib import Path
from time import monotonic_ns
from typing import cast

import msgspec
import uvloop
from support.certificates import chained_certificate

DOMAIN = "hooks.example.com"
CERTIFICATE = "certificate.pem"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
_KEY = re.compile(rb'"key":"([^"]+)"')
_ANSWERS = {
    b"ok": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
    b"close": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
    b"500": b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno",
    b"hang": b"",
}


class Taken(msgspec.Struct, array_like=True):
    """A request: the time of its first byte, and the keys of its alerts."""

    first_ns: int
    keys: list[str]


def number_of(host: int) -> str:
    """Return the IP address of a host."""
    return f"127.0.{host // 250}.{host % 250 + 1}"


class Endpoint(asyncio.Protocol):
    """One connection. `noted`: list of received requests."""

    def __init__(self, noted: list[tuple[int, bytes]]) -> None:
        self._noted, self._came, self._first_ns = noted, b"", 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; answer each complete request."""
        if not self._came:
            self._first_ns = monotonic_ns()
        self._came += data
        head, end, body = self._came.partition(b"\r\n\r\n")
        length = _LENGTH.search(head) if end else None
        if length is None or len(body) < int(length[1]):
            return
        self._came = b""
        self._noted.append((self._first_ns, body))
        way = re.split(rb"[/ ]", head, maxsplit=3)[2]
        self._transport.write(_ANSWERS[way])
        if way == b"close":
            self._transport.close()


async def _serve(folder: Path, hosts: int) -> None:
    noted: list[tuple[int, bytes]] = []
    loop = asyncio.get_running_loop()
    context, port = chained_certificate(folder, f"*.{DOMAIN}").server, 0
    for host in range(hosts):
        server = await loop.create_server(
            lambda: Endpoint(noted), number_of(host), port, ssl=context, backlog=1024
        )
        port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    ended = asyncio.Event()

    def report() -> None:
        if not sys.stdin.readline():
            ended.set()
            return
        taken = [Taken(first_ns, [key.decode() for key in _KEY.findall(body)]) for first_ns, body in noted]
        noted.clear()
        sys.stdout.buffer.write(msgspec.json.encode(taken) + b"\n")
        sys.stdout.flush()

    loop.add_reader(sys.stdin, report)
    await ended.wait()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
