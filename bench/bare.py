"""The minimum a server in Python does: `python -m bench.bare asgi|protocol PORT FILE` sends FILE for each request.

`asgi` is an application that ignores the request, on the product's uvicorn, uvloop and httptools. `protocol` is an
asyncio protocol on uvloop that does not even parse.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvicorn
import uvloop


def _serve_asgi(port: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]

    async def app(scope: dict[str, Any], _receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    uvicorn.run(
        app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", ws="none", lifespan="off",  # type: ignore[arg-type]
        access_log=False, log_level="warning", server_header=False,
    )  # fmt: skip


class _Constant(asyncio.Protocol):
    """Protocol that answers each packet with the same bytes."""

    answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.write = transport.write  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.write(self.answer)


def _serve_protocol(port: int, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    _Constant.answer = head + body

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(_Constant, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(forever())


if __name__ == "__main__":
    kind, number, file = sys.argv[1:]
    {"asgi": _serve_asgi, "protocol": _serve_protocol}[kind](int(number), Path(file).read_bytes())
