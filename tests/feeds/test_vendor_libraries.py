"""Private parts of vendors' client libraries that adapters rely on, and the verified versions.

Four adapters subclass or replace undocumented parts. `pyproject.toml` limits each library to the verified minor
version. Before raising a limit, read the library's changes, adjust the adapter, and then adjust the version here.
"""

import asyncio
import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest
from databento.common.http import BentoHttpAPI
from databento.historical.api.timeseries import TimeseriesHttpAPI
from databento.live.protocol import DatabentoLiveProtocol
from ib_async.client import Client
from ib_async.decoder import Decoder
from massive import RESTClient, WebSocketClient
from pysignalr.client import SignalRClient
from pysignalr.transport.websocket import WebsocketTransport
from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import Frame

#: Requirement of each library whose private parts we use, as `pyproject.toml` states it.
VERIFIED = {
    "databento": "databento>=0.87,<0.88",
    "ibkr": "ib_async>=2.1,<2.2",
    "massive": "massive>=2.9,<2.10",
    "projectx": "pysignalr>=1.3.3,<1.4",
}


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("extra", VERIFIED)
def test_each_extra_allows_only_the_verified_minor_version(extra: str) -> None:
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())
    assert project["project"]["optional-dependencies"][extra] == ["openoutcry[serve]", VERIFIED[extra]]
    assert VERIFIED[extra] in project["dependency-groups"]["dev"]


# -- databento: `feeds.databento.gateway.Gateway`, `feeds.databento.history`


def test_databento_delivers_every_byte_through_buffer_updated() -> None:
    """`Gateway` decodes records itself: it reads `get_buffer` and skips `_process_dbn` once the login is done."""
    assert parameters(DatabentoLiveProtocol.buffer_updated) == ["self", "nbytes"]
    assert parameters(DatabentoLiveProtocol.get_buffer) == ["self", "sizehint"]
    source = inspect.getsource(DatabentoLiveProtocol.buffer_updated)
    assert "self.authenticated.done()" in source

    async def buffers() -> tuple[bytearray, bytearray]:
        protocol = DatabentoLiveProtocol("db-" + "0" * 29, "GLBX.MDP3")
        return protocol.get_buffer(64), protocol.get_buffer(16)

    first, second = asyncio.run(buffers())
    assert first is second  # a smaller request returns the buffer that was filled


def test_databento_downloads_history_through_stream_async() -> None:
    """Our historical client overrides `_stream_async` and sends the library's `_headers`."""
    assert TimeseriesHttpAPI._stream_async is BentoHttpAPI._stream_async
    assert parameters(BentoHttpAPI._stream_async) == ["self", "url", "data", "basic_auth", "path"]
    assert "self._stream_async(" in inspect.getsource(TimeseriesHttpAPI.get_range_async)
    assert TimeseriesHttpAPI("db-" + "0" * 29, "https://127.0.0.1")._headers


# -- ib_async: `feeds.ibkr.tws`


def test_ib_async_takes_any_receiver_and_a_replaced_decoder() -> None:
    """`Tws` passes its own receiver for the library's `Wrapper`. The client calls three of its methods."""
    client = Client(_Hooks())
    assert client.decoder.wrapper is client.wrapper
    source = inspect.getsource(Client)
    called = {
        name for name in ("connectAck", "connectionClosed", "setEventsDone") if f"wrapper.{name}()" in source
    }
    assert called == {"connectAck", "connectionClosed", "setEventsDone"}
    assert source.count("self.wrapper.") == len(called)
    assert "self.decoder.interpret(fields)" in source
    assert hasattr(client.conn, "disconnected")
    assert client.conn.transport is None
    assert parameters(Client.connectAsync)[1:5] == ["host", "port", "clientId", "timeout"]


def test_ib_async_finds_a_handler_by_message_number() -> None:
    """`_StrictDecoder.interpret` replaces the library's, which only logs what it cannot read."""
    decoder = Decoder(_Hooks(), 0)
    assert {4, 10, 17, 49, 52, 98, 99} <= set(decoder.handlers)
    assert "self.handlers[msgId]" in inspect.getsource(Decoder.interpret)


class _Hooks:
    """A receiver with what `Client` and `Decoder` read when they are created, and no more."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


# -- massive: `feeds.massive.transport`


def test_massive_reads_frames_with_the_json_module_it_was_given() -> None:
    """`Socket` passes itself as `custom_json`, to see the statuses that the library reads during the login."""
    source = inspect.getsource(WebSocketClient.connect)
    assert source.count("self.json.loads(") == 3  # greeting, login, and frames where `raw` is off
    assert "if not self.raw:" in source
    client = WebSocketClient("key", feed="127.0.0.1:1", raw=True, subscriptions=["T.ESZ6"])
    assert (client.websocket, client.subs, client.scheduled_subs) == (None, set(), {"T.ESZ6"})


def test_massive_subscribes_to_what_its_set_of_subscriptions_lacks() -> None:
    """After a failed subscription `Socket` removes it from `subs`, so that the library sends it again."""
    assert "self.scheduled_subs.difference(self.subs)" in inspect.getsource(WebSocketClient.connect)


def test_massive_requests_history_through_get() -> None:
    """Our REST client overrides `_get` to limit a response's size, and closes the pools of both inner clients."""
    assert parameters(RESTClient._get)[:3] == ["self", "path", "params"]
    client = RESTClient("key", base="https://127.0.0.1")
    assert client.BASE == "https://127.0.0.1"
    assert client.headers["Authorization"] == "Bearer key"
    assert client.client is not client.vx.client


# -- pysignalr: `feeds.projectx.hub`


def test_pysignalr_uses_the_transport_that_replaces_its_own() -> None:
    """`_Client` replaces `_transport`, built from the client's `_protocol` and `_on_message`."""
    client = SignalRClient("http://127.0.0.1/hub")
    assert isinstance(client._transport, WebsocketTransport)
    assert "await self._transport.run()" in inspect.getsource(SignalRClient.run)
    assert client._protocol is not None
    assert parameters(client._on_message) == ["message"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("_set_state", ["self", "state"]),
        ("_negotiate", ["self"]),
        ("_handshake", ["self", "conn"]),
        ("_keepalive", ["self", "conn"]),
        ("_process", ["self", "conn"]),
        ("_on_raw_message", ["self", "raw_message"]),
    ],
)
def test_pysignalr_connects_in_the_steps_our_transport_repeats(method: str, expected: list[str]) -> None:
    assert parameters(getattr(WebsocketTransport, method)) == expected


def test_pysignalr_sends_on_the_connection_its_transport_stores() -> None:
    """Our `run` sets `_ws`, and `_negotiate` sets `_url` and `_headers`."""
    source = inspect.getsource(WebsocketTransport)
    assert "return self._ws" in source
    assert "self._url = get_connection_url(self._url, connection_id)" in source
    assert "self._headers['Cookie'] =" in source


# -- websockets, below massive and pysignalr: `feeds.websocket_handshake`


def test_websockets_opens_a_connection_by_handshake() -> None:
    """`DirectConnection` overrides `handshake`, and is passed as `create_connection`."""
    assert inspect.iscoroutinefunction(ClientConnection.handshake)
    assert "create_connection" in parameters(connect.__init__)


def test_websockets_passes_each_frame_to_process_event() -> None:
    """Massive's `_Connection` handles the frames there; `transport` is the library's."""
    assert parameters(ClientConnection.process_event) == ["self", "event"]
    source = inspect.getsource(ClientConnection.data_received)
    assert "self.process_event(event)" in source
    assert "self.transport = transport" in inspect.getsource(ClientConnection.connection_made)
    assert {"opcode", "data", "fin"} <= set(inspect.signature(Frame).parameters)
