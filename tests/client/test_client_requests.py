"""Requests of both clients: kept connections, retries, errors, tables."""

import asyncio
import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.api.sample_answers import ANSWERS
from tests.client.scripted_server import Turn, refusal, scripted

import outcry
from outcry.client import (
    ERRORS,
    ApiError,
    AsyncClient,
    Client,
    NoLicensedSource,
    RateLimited,
    Starting,
    UnknownSymbol,
    Unreachable,
    retrying,
)
from outcry.http.errors import STATUS
from outcry.wire.answers import LevelsAnswer, SymbolsAnswer

LEVELS = Turn(body=msgspec.json.encode(ANSWERS["LevelsAnswer"]))
SYMBOLS = Turn(body=msgspec.json.encode(ANSWERS["SymbolsAnswer"]))
Call = Callable[..., Any]


def sync_call(url: str, *names: str, **options: Any) -> list[Any]:
    """Call methods without a symbol, one after the other, with one client."""
    with Client(url, "a key", **options) as client:
        return [getattr(client, name)() for name in names]


def async_call(url: str, *names: str, **options: Any) -> list[Any]:
    async def work() -> list[Any]:
        async with AsyncClient(url, "a key", **options) as client:
            return [await getattr(client, name)() for name in names]

    return asyncio.run(work())


@pytest.fixture(params=[sync_call, async_call], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Call:
    return request.param


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses that the service does not prescribe."""
    monkeypatch.setattr(retrying, "_FIRST_PAUSE_S", 0.001)


def test_requests_share_a_connection(call: Call) -> None:
    with scripted([SYMBOLS]) as (url, received):
        found = call(url, "symbols", "symbols", "symbols")
    assert [type(answer) for answer in found] == [SymbolsAnswer] * 3
    assert (len(received.requests), received.connections) == (3, 1)
    assert received.requests[0][2]["x-api-key"] == "a key"


def test_a_connection_that_the_service_closed_is_replaced(call: Call) -> None:
    with scripted([Turn(body=SYMBOLS.body, close=True), SYMBOLS]) as (url, received):
        call(url, "symbols", "symbols", retry_s=0)
    assert (len(received.requests), received.connections) == (2, 2)


def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async def work(url: str) -> None:
        async with AsyncClient(url, "a key") as client:
            await asyncio.gather(*(client.symbols() for _ in range(8)))

    with scripted([SYMBOLS]) as (url, received):
        asyncio.run(work(url))
    assert len(received.requests) == 8


def test_a_used_up_limit_is_waited_for(call: Call) -> None:
    limited = refusal(429, "rate_limited", retry_after_ms=20)
    with scripted([limited, limited, SYMBOLS]) as (url, received):
        assert len(call(url, "symbols")) == 1
    assert len(received.requests) == 3


@pytest.mark.usefixtures("quick")
def test_a_service_that_restarts_is_waited_for(call: Call) -> None:
    starting = refusal(503, "starting", {"retry-after": "0"})
    with scripted([SYMBOLS, refusal(502, "upstream_unavailable"), starting, SYMBOLS]) as (url, received):
        assert len(call(url, "symbols", "symbols")) == 2
    assert len(received.requests) == 4


@pytest.mark.usefixtures("quick")
def test_a_proxy_error_of_a_known_service_is_retried() -> None:
    """While a service restarts, a proxy before it may answer in its place."""
    with scripted([SYMBOLS, Turn(502, b"<html>Bad gateway"), SYMBOLS]) as (url, received):
        assert len(sync_call(url, "symbols", "symbols")) == 2
    assert len(received.requests) == 3


def test_a_delay_beyond_the_limit_is_an_error_at_once(call: Call) -> None:
    limited = refusal(429, "rate_limited", retry_after_ms=60_000)
    with scripted([limited]) as (url, received), pytest.raises(RateLimited) as caught:
        call(url, "symbols", retry_s=5)
    assert caught.value.retry_after_s == 60.0
    assert len(received.requests) == 1


@pytest.mark.parametrize(
    "turn", [refusal(503, "starting", {"retry-after": "1"}), refusal(429, "rate_limited")]
)
def test_without_retries_an_error_is_raised_at_once(call: Call, turn: Turn) -> None:
    with scripted([turn]) as (url, received), pytest.raises((Starting, RateLimited)):
        call(url, "symbols", retry_s=0)
    assert len(received.requests) == 1


def test_a_wrong_url_is_an_error_at_once(call: Call) -> None:
    """Nothing has answered there before, so the URL is probably wrong."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(Unreachable):
        call(f"http://127.0.0.1:{port}", "symbols")


@pytest.mark.parametrize("code", sorted(STATUS))
def test_every_code_has_an_exception_of_its_own(code: str) -> None:
    with (
        scripted([refusal(STATUS[code], code, reason="unknown")]) as (url, _),
        pytest.raises(ApiError) as caught,
    ):
        sync_call(url, "symbols", retry_s=0)
    error = caught.value
    assert type(error) is ERRORS[code]
    assert (error.code, error.status, error.request_id, error.body["reason"]) == (
        code,
        STATUS[code],
        "7",
        "unknown",
    )


def test_exceptions_and_codes_are_the_services() -> None:
    assert set(ERRORS) == set(STATUS)
    assert issubclass(NoLicensedSource, ApiError)


def test_a_code_of_a_newer_service_is_an_api_error() -> None:
    with scripted([refusal(418, "teapot")]) as (url, _), pytest.raises(ApiError) as caught:
        sync_call(url, "symbols")
    assert (type(caught.value), caught.value.code) == (ApiError, "teapot")


@pytest.mark.parametrize(
    "turn", [Turn(302, headers={"location": "http://127.0.0.1:1/"}), Turn(body=b"<html>")]
)
def test_another_server_is_not_taken_for_the_service(call: Call, turn: Turn) -> None:
    with scripted([turn]) as (url, received), pytest.raises(Unreachable):
        call(url, "symbols")
    assert len(received.requests) == 1


def test_pages_of_alerts_are_fetched_as_needed() -> None:
    entry = msgspec.to_builtins(ANSWERS["AlertsHistoryAnswer"])["alerts"][0]
    pages = [
        Turn(body=json.dumps({"count": 2, "alerts": [{**entry, "seq": n} for n in seqs], "nextBefore": more}).encode())
        for seqs, more in (((9, 8), 8), ((7, 6), None))
    ]  # fmt: skip
    with scripted(pages) as (url, received), Client(url, "a key") as client:
        alerts = client.iter_alerts("ES", first="2026-01-02")
        assert next(alerts).seq == 9
        assert len(received.requests) == 1
        assert [alert.seq for alert in alerts] == [8, 7, 6]
    assert [path for _, path, _ in received.requests] == [
        "/api/alerts/history?symbol=ES&from=2026-01-02",
        "/api/alerts/history?symbol=ES&from=2026-01-02&before=8",
    ]

    async def seqs(url: str) -> list[int]:
        async with AsyncClient(url, "a key") as client:
            return [alert.seq async for alert in client.iter_alerts()]

    with scripted(pages) as (url, _):
        assert asyncio.run(seqs(url)) == [9, 8, 7, 6]


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted([SYMBOLS]) as (proxy, received):
        monkeypatch.setenv("http_proxy", proxy.replace("//", "//ann:p%40ss@"))
        monkeypatch.setenv("no_proxy", "")
        assert sync_call("http://outcry.example:8000/prefix", "symbols")
    (_, target, headers) = received.requests[0]
    assert target == "http://outcry.example:8000/prefix/api/symbols"
    assert headers["host"] == "outcry.example:8000"
    assert headers["proxy-authorization"] == "Basic YW5uOnBAc3M="


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_service_on_this_machine_is_reached_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with scripted([SYMBOLS]) as (url, received):
        assert sync_call(url.replace("127.0.0.1", host), "symbols")
    assert received.requests[0][1] == "/api/symbols"


def test_a_cancelled_call_ends_at_once() -> None:
    async def work(port: int) -> None:
        async with AsyncClient(f"http://127.0.0.1:{port}", "a key", timeout_s=2) as client:
            task = asyncio.create_task(client.levels("ES"))
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(work(silent.getsockname()[1]))


def test_answers_become_json_and_dictionaries() -> None:
    with scripted([LEVELS]) as (url, _), Client(url, "a key") as client:
        answer = client.levels("ES")
    assert isinstance(answer, LevelsAnswer)
    assert json.loads(json.dumps(answer.to_dict())) == json.loads(LEVELS.body) == json.loads(answer.to_json())
    assert answer.to_dict()["dataSource"] == answer.data_source


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_answers_become_tables(library: str) -> None:
    answers = ANSWERS
    history, levels = answers["HistoryAnswer"], answers["LevelsAnswer"]
    table = history.to_frame(library)
    columns = list(table.column_names if library == "pyarrow" else table.columns)
    assert len(table) == len(history.sessions)  # type: ignore[attr-defined]
    assert {"date", "poc", "ib_high", "data_quality", "data_source"} <= set(columns)
    one = levels.to_frame(library)
    assert len(one) == 1
    assert "prior_poc" in list(one.column_names if library == "pyarrow" else one.columns)


def test_a_table_is_of_the_library_that_the_program_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    for name in ("pandas", "pyarrow"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert isinstance(ANSWERS["SymbolsAnswer"].to_frame(), pl.DataFrame)


def test_a_table_without_a_library_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="Run: pip install pandas"):
        ANSWERS["SymbolsAnswer"].to_frame()


def test_the_package_lists_the_client() -> None:
    assert {"AsyncClient", "Client", "profile", "verify_webhook"} <= set(dir(outcry))
    assert outcry.AsyncClient is AsyncClient
    assert issubclass(UnknownSymbol, outcry.ApiError)
