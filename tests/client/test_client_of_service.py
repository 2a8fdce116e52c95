import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta

import pytest
from tests.api.harness import Harness

from outcry.answers.profile_request import ProfileRequest
from outcry.client import ApiError, Client, Unreachable
from outcry.wire.answers import LevelsAnswer


@contextmanager
def strange_server(
    status: int, headers: dict[str, str], body: bytes
) -> Iterator[tuple[str, list[str | None]]]:
    """Start a server with the same answer for all requests that records the received keys."""
    keys: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.append(self.headers.get("x-api-key"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()
            thread.join()


def test_each_endpoint_through_the_client(harness: Harness) -> None:
    client = Client(f"http://127.0.0.1:{harness.port}/", harness.key())
    levels = client.levels("ES")
    assert isinstance(levels, LevelsAnswer)
    assert (levels.symbol, levels.prior.poc, levels.live) == ("ES", 6900.25, False)
    assert client.symbols().symbols[0].symbol == "ES"
    assert client.profile("ES", "2026-01-02").rows[0].letters == "BCDEFGIJK"
    assert client.match("ES", "2026-01-02", 6900.25, vah="6912.5", val=6889.75).matches[0].basis == "volume"
    assert client.chart("ES", 3).sessions[0].brackets[0].letter == "A"
    assert client.history("ES", "2026-01-02", "2026-01-05").from_ == "2026-01-02"
    assert client.context("ES").symbol == "ES"
    assert client.alerts().alerts[0].type == "va-test-high"
    assert client.alerts("ES").count == 1
    assert harness.query.calls[4] == ("chart", 1, "ES", 3)
    past = client.alerts_history("ES", "2026-01-02", before=9, limit=5)
    assert (past.alerts[0].params["vah"], past.next_before) == (6912.5, None)
    assert harness.query.calls[-1] == ("alerts_history", 1, "ES", "2026-01-02", None, 9, None, 5)
    assert harness.query.calls[5] == ("history", 1, "ES", "2026-01-02", "2026-01-05")


def test_lists_of_sessions_and_times(harness: Harness) -> None:
    """Lists, pairs, dates and aware times, as Python has them, and the same as text."""
    client = Client(f"http://127.0.0.1:{harness.port}/", harness.key())
    start = datetime(2026, 1, 2, 15, tzinfo=UTC)
    days = [date(2026, 1, 5), ("2025-12-29", date(2025, 12, 31)), (start, start + timedelta(hours=1))]
    client.profile("ES", sessions=days, split=[start + timedelta(minutes=30)])
    client.profile(
        "ES",
        sessions="2026-01-05,2025-12-29/2025-12-31,2026-01-02T15:00:00Z/2026-01-02T16:00:00Z",
        split="2026-01-02T15:30:00Z",
    )
    client.profile("ES", first=start, last="2026-01-05")
    at_ns = 1_767_366_000_000_000_000
    pairs = (("2026-01-05", "2026-01-05"), ("2025-12-29", "2025-12-31"), (at_ns, at_ns + 3600 * 10**9))
    asked = ProfileRequest(sessions=pairs, split=(at_ns + 1800 * 10**9,))
    assert harness.query.calls == [
        ("chosen_profile", 1, "ES", asked),
        ("chosen_profile", 1, "ES", ProfileRequest(first=at_ns, last="2026-01-05")),
    ]


def test_a_symbol_is_escaped(harness: Harness) -> None:
    with pytest.raises(ApiError) as caught:
        Client(f"http://127.0.0.1:{harness.port}", harness.key()).levels("E&S=ü/ ")
    assert caught.value.body["symbol"] == "E&S=ü/"


def test_a_refusal_has_code_status_and_what_the_code_adds(harness: Harness) -> None:
    with pytest.raises(ApiError) as caught:
        Client(f"http://127.0.0.1:{harness.port}", harness.key(), language="de").levels("NQ")
    error = caught.value
    assert (error.code, error.status) == ("no_licensed_source", 409)
    assert error.message.startswith("Für diesen Schlüssel")
    assert error.body["fix"]["account"] == "/account"
    assert error.request_id


def test_a_redirect_is_not_followed_so_the_key_stays(harness: Harness) -> None:
    with strange_server(200, {}, b"{}") as (elsewhere, keys):
        with strange_server(302, {"location": elsewhere}, b"") as (url, _), pytest.raises(Unreachable):
            Client(url, "a key").levels("ES")
        assert keys == []


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"{}"), (502, b"Bad Gateway"), (404, b"[]")]
)
def test_what_is_no_service_is_unreachable(status: int, body: bytes) -> None:
    with strange_server(status, {}, body) as (url, _), pytest.raises(Unreachable):
        Client(url, "a key").levels("ES")


def test_an_unavailable_service() -> None:
    with pytest.raises(Unreachable):
        Client("http://127.0.0.1:1", "a key", timeout_s=1).levels("ES")


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "file:///etc/passwd", "ftp://a", "http://", "http://a/?x=1"]
)
def test_only_web_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="base URL"):
        Client(url, "a key")


def test_a_key_with_a_line_break_is_not_sent() -> None:
    with strange_server(200, {}, b"{}") as (url, keys):
        with pytest.raises(ValueError, match="no header may have") as caught:
            Client(url, "a\r\nx-evil: 1")
        assert "evil" not in str(caught.value)
        assert keys == []
