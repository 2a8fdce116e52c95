"""The private parts of uvicorn that our protocols use exist, and a service runs without them on an untested version."""

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from tests.api.harness import build_harness, served
from tests.api.wire import Wire, plain
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from outcry.base.log_events import LogEvent
from outcry.http import protocol, strict_protocol
from outcry.http.edge import STATUS_LINE
from outcry.http.tested_uvicorn import RANGE, is_tested

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]

#: What our protocols use of `HttpToolsProtocol`: attributes, and methods that they call or replace.
INHERITED = {
    "client", "connection_lost", "connection_made", "cycle", "data_received", "expect_100_continue", "flow", "headers",
    "logger", "loop", "on_body", "on_header", "on_headers_complete", "on_message_begin", "on_message_complete",
    "on_response_complete", "parser", "pipeline", "scheme", "scope", "server_state", "tasks", "timeout_keep_alive",
    "timeout_keep_alive_handler", "timeout_keep_alive_task", "transport", "url",
    "_unset_keepalive_if_required",
}  # fmt: skip
#: What they use of the one request in progress (`cycle`).
OF_A_CYCLE = {
    "default_headers", "disconnected", "keep_alive", "message_event", "on_response", "response_complete",
    "response_started", "run_asgi", "waiting_for_100_continue",
}  # fmt: skip
OF_THE_STATE = {"default_headers", "total_requests"}


def uses(name: str) -> set[str]:
    """Return the attributes of a name (`self`, `cycle`) that the sources of our protocols use."""
    return {
        node.attr
        for module in (strict_protocol, protocol)
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }


def inherited() -> HttpToolsProtocol:
    """Return a protocol of uvicorn alone, in the middle of a request."""

    async def app(scope: Any, receive: Any, send: Any) -> None: ...

    plain_protocol = HttpToolsProtocol(uvicorn.Config(app, ws="none"), ServerState(), {}, _loop=object())  # type: ignore[arg-type]
    plain_protocol.on_message_begin()
    return plain_protocol


def test_the_inherited_parts_exist() -> None:
    found = inherited()
    assert {name for name in INHERITED if not hasattr(found, name)} == set()
    assert {name for name in OF_THE_STATE if not hasattr(ServerState(), name)} == set()
    cycle = RequestResponseCycle(
        scope=found.scope, transport=found.transport, flow=found.flow, logger=found.logger,
        access_logger=found.access_logger, access_log=False, default_headers=[], message_event=object(),  # type: ignore[arg-type]
        expect_100_continue=False, keep_alive=True, on_response=lambda: None,
    )  # fmt: skip
    assert {name for name in OF_A_CYCLE if not hasattr(cycle, name)} == set()


def test_the_lists_are_complete() -> None:
    """Every name of uvicorn's class in our sources is listed, and every listed one is used.

    A name of our own that uvicorn uses too fails here as well.
    """
    used = uses("self") & set(dir(inherited()))
    replaced = {
        name
        for cls in (strict_protocol.StrictProtocol, protocol.EdgeProtocol)
        for name in vars(cls)
        if hasattr(HttpToolsProtocol, name) and not name.startswith("__")
    }
    assert used | replaced == INHERITED
    assert uses("cycle") == OF_A_CYCLE


def test_status_lines_are_those_of_the_library() -> None:
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE as THEIRS

    assert {status: THEIRS[status] for status in STATUS_LINE} == STATUS_LINE


def test_the_range_is_the_one_of_the_distribution() -> None:
    (wanted,) = (
        Requirement(each) for each in PROJECT["optional-dependencies"]["serve"] if each.startswith("uvicorn")
    )
    assert str(wanted.specifier) == str(Requirement(f"uvicorn{RANGE}").specifier)
    assert f"'uvicorn{RANGE}'" in LogEvent.UNTESTED_UVICORN.action
    assert is_tested(uvicorn.__version__)


@pytest.mark.parametrize(
    ("version", "tested"),
    [
        ("0.33.9", False), ("0.34.0", True), ("0.54.3", True), ("0.55.0", False), ("0.100.0", False),
        ("1.40.0", False), ("unknown", False), ("", False),
    ],
)  # fmt: skip
def test_a_version_is_in_the_range_or_not(version: str, tested: bool) -> None:
    assert is_tested(version) is tested


def test_an_untested_version_serves_by_the_ordinary_route_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(uvicorn, "__version__", "0.99.0")
    monkeypatch.setattr(protocol, "protocol_for", None)  # would fail if it were used
    with served(build_harness()) as harness:
        key = harness.key("free")
        for _ in range(3):
            reply = harness.get("/api/levels?symbol=ES", key)
            assert (reply.status, reply.headers["x-api-tier"]) == (200, "free")
            assert json.loads(reply.body)["symbol"] == "ES"
        assert reply.headers["x-ratelimit-remaining"] == "27"
        assert harness.get("/api/levels?symbol=XX", key).status == 404
        assert harness.get("/api/levels?symbol=ES").status == 401
        assert len(harness.app.fast_path) == 0
        with Wire(harness) as wire:
            wire.send(plain(key, "/api/stream?symbols=ES"))
            assert wire.read().startswith(b"HTTP/1.1 200 ")
    lines = [json.loads(line) for line in harness.log.getvalue().splitlines()]
    found = [line for line in lines if line["event"] == "untested_uvicorn"]
    assert [(line["level"], line["version"], line["tested"]) for line in found] == [
        ("warning", "0.99.0", RANGE)
    ]


def test_a_tested_version_is_not_logged() -> None:
    with served(build_harness()) as harness:
        assert harness.get("/api/levels?symbol=ES", harness.key()).status == 200
    assert b"untested_uvicorn" not in harness.log.getvalue()
