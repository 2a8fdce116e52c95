"""The parser accepts, and the application answers with equal bytes, every request that the fast path answers.

Known requests are recombined and damaged as an attacker would: line ends, continued lines, repeated and hidden headers.
"""

import asyncio
import re
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.harness import Harness, build_harness

from outcry.http.connections import Connections
from outcry.http.protocol import EdgeProtocol, protocol_for
from outcry.http.server import Binding, build_server

DATED = [(b"date", b"Fri, 02 Jan 2026 15:04:05 GMT")]
VARYING = re.compile(rb"[0-9a-f]{12}-[0-9a-f]{8}|ratelimit[^\r]*")


class Transport:
    """In-memory connection."""

    def __init__(self) -> None:
        self.written = b""
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 9) if name in ("peername", "sockname") else None

    def resume_reading(self) -> None:
        """Do nothing, because this transport never pauses."""


class Service:
    """Service that answers packets in process, by the fast path or by the parser."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        server = build_server(harness.app, Binding())
        server.config.load()
        server.server_state.default_headers = DATED
        self._server = server

    def _connection(self, *, fastpath: bool) -> tuple[EdgeProtocol, Transport]:
        app = self._harness.app
        made = protocol_for(
            app.edge, app.answer_at_once, app.fast_path if fastpath else None, Connections(app.edge.event_log)
        )
        protocol, transport = made(self._server.config, self._server.server_state, {}), Transport()
        protocol.connection_made(cast("asyncio.Transport", transport))
        return protocol, transport

    async def teach(self, request: bytes) -> None:
        """Send a request twice: the first is computed, the second cached."""
        for _ in range(2):
            protocol, transport = self._connection(fastpath=True)
            protocol.data_received(request)
            while not transport.written:
                await asyncio.sleep(0.001)
            protocol.connection_lost(None)

    def by_fast_path(self, data: bytes) -> bytes | None:
        return self._harness.app.fast_path.serve(data, DATED)

    def by_parser(self, data: bytes) -> bytes:
        """Return the output on a new connection before the application itself would run."""
        protocol, transport = self._connection(fastpath=False)
        protocol.data_received(data)
        protocol.connection_lost(None)
        return transport.written


TAG = '"0123456789abcdef0123456789abcdef"'
#: Further header lines of known requests: none, a condition, a header, a continued one, two conditions.
MORE = [
    "",
    f"If-None-Match: {TAG}\r\n",
    "A: b\r\n",
    "A: b\r\n c\r\n",
    f"If-None-Match: {TAG}\r\nIf-None-Match: *\r\n",
]
#: Lines that equal known ones once a condition is removed.
DECEIVING = ["If-None-Match: *\r\n", f"A: b\r\nIf-None-Match: {TAG}\r\n c\r\n"]
#: Fragments that end, continue, repeat or hide a line.
PARTS = [
    "\r\n", "\r\n\r\n", "\n", "\r", " ", "\t", ":", "\x00", "\r\n ", "\r\n\t", "\n\n", "\r\n\r",
    "GET /api/levels?symbol=ES HTTP/1.1", "GET /api/symbols HTTP/1.0", "POST ", "#", "?", "%", "http://outcry",
    "\r\nHost: outcry", "\r\nHost: a b", "\r\nContent-Length: 5", "\r\nTransfer-Encoding: chunked",
    "\r\nConnection: close", "\r\nUpgrade: h2c", "\r\nx-api-key: KEY", "\r\nx-request-id: a",
    f"\r\nIf-None-Match: {TAG}", f"\r\nif-none-match: {TAG}\r\n continued", f"\r\nIf-None-Match: {TAG}, {TAG}",
    f"\r\nIf-None-Match:{TAG}", "\r\nIf-None-Match: *",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Generate a request of known lines, with fragments inserted or removed anywhere."""
    line = draw(st.sampled_from(["/api/levels?symbol=ES", "/api/symbols", "/api/levels?symbol=XX"]))
    more = draw(st.sampled_from([*MORE, *DECEIVING]))
    text = f"GET {line} HTTP/1.1\r\nHost: outcry\r\nx-api-key: KEY\r\n{more}\r\n"
    for _ in range(draw(st.integers(0, 2))):
        # mostly at line ends, where damage matters
        ends = [place for place, letter in enumerate(text) if letter in "\r\n:"] + [0, len(text)]
        at = draw(st.sampled_from(ends) | st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(PARTS)) + text[at + draw(st.integers(0, 2)) :]
    return text


@settings(max_examples=8)
@pytest.mark.hypothesis
@given(requests=st.lists(damaged(), min_size=60, max_size=60))
def test_damaged_requests_are_answered_as_if_they_were_parsed(requests: list[str]) -> None:
    async def run() -> None:
        harness = build_harness()
        await harness.app.start()
        try:
            service, keys = Service(harness), [harness.key(), harness.key()]
            for path in ("/api/levels?symbol=ES", "/api/symbols", "/api/levels?symbol=XX"):
                for more in MORE:
                    head = f"GET {path} HTTP/1.1\r\nHost: outcry\r\nx-api-key: {keys[0]}\r\n{more}\r\n"
                    await service.teach(head.encode())
            for request in requests:
                data = request.replace("KEY", keys[0]).encode("latin-1")
                response = service.by_fast_path(data)
                if response is not None:
                    assert VARYING.sub(b"", response) == VARYING.sub(b"", service.by_parser(data)), data
        finally:
            await harness.app.stop()

    asyncio.run(run())
