"""Answers, entity tags, errors in two languages, and how often each answer is computed."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.api.harness import SECOND, Harness, build_harness, known, served
from tests.timeouts import wait_until

from outcry.answers.matching import GivenPrices
from outcry.answers.profile_request import ProfileRequest
from outcry.base.errors import Occupied
from outcry.database.errors import StoreBusy

LEVELS = "/api/levels?symbol=ES"
#: interface.md, "Levels answer".
FIELDS = [
    "symbol",
    "dataSource",
    "live",
    "asOf",
    "updatedAt",
    "lastPrice",
    "bias",
    "developing",
    "prior",
    "overnight",
    "nakedPocs",
    "poorHighs",
    "poorLows",
    "playbook",
]


def test_levels_have_exactly_the_interfaces_fields(harness: Harness) -> None:
    reply = harness.get(LEVELS, harness.key())
    assert reply.headers["content-type"] == "application/json"
    body = json.loads(reply.body)
    assert list(body) == FIELDS
    assert body["prior"] == {"poc": 6900.25, "vah": 6912.5, "val": 6889.75}


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("/api/levels?symbol=es", ("levels", 1, "es")),
        ("/api/levels?symbol=%45%53&other=1", ("levels", 1, "ES")),
        ("/api/levels?symbol=+ES+", ("levels", 1, "ES")),
        ("/api/symbols", ("symbols", 1, None)),
        ("/api/profile?symbol=ES", ("profile", 1, "ES", None)),
        (
            "/api/match?symbol=ES&date=2026-01-02&poc=6900.25&vah=6912&val=-0.0000005&vpoc=1",
            ("match", 1, "ES", "2026-01-02", GivenPrices(6_900_250_000_000, 6_912 * 10**9, -500, 10**9)),
        ),
        ("/api/profile?symbol=ES&date=2026-01-02", ("profile", 1, "ES", "2026-01-02")),
        ("/api/profile?symbol=ES&date=", ("profile", 1, "ES", None)),
        (
            "/api/profile?symbol=ES&session=rth&bracket=30&row=1&method=dalton&period=&from=&to=",
            ("profile", 1, "ES", None),
        ),
        (
            "/api/profile?symbol=ES&session=full&bracket=60&row=4&method=cbot_1row&period=week&date=2026-01-02",
            (
                "chosen_profile",
                1,
                "ES",
                ProfileRequest("2026-01-02", None, None, "week", "full", 60, 4, "cbot_1row"),
            ),
        ),
        ("/api/presets", ("presets", 1, None)),
        (
            "/api/profile?symbol=ES&method=my-desk&row=4&session=",
            ("chosen_profile", 1, "ES", ProfileRequest(method="my-desk", row_ticks=4, named="row")),
        ),
        (
            "/api/profile?symbol=ES&bracket=15&delta=1&anchor=2026-01-02T10:00:00.25-05:00",
            (
                "chosen_profile",
                1,
                "ES",
                ProfileRequest(bracket_minutes=15, delta=True, anchor_ns=1_767_366_000_250_000_000),
            ),
        ),
        (
            "/api/profile?symbol=ES&from=2025-12-29&to=2026-01-02",
            ("chosen_profile", 1, "ES", ProfileRequest(None, "2025-12-29", "2026-01-02")),
        ),
        (
            "/api/profile?symbol=ES&from=2026-01-02T15:00:00Z&to=2026-01-02T10:00:00.25-05:00",
            (
                "chosen_profile",
                1,
                "ES",
                ProfileRequest(first=1_767_366_000_000_000_000, last=1_767_366_000_250_000_000),
            ),
        ),
        (
            "/api/profile?symbol=ES&sessions=2026-01-05,2025-12-29/2026-01-02,2026-01-06/2026-01-07T15:00:00%2B01:00"
            "&split=2026-01-02T15:00:00Z,2026-01-02T15:30:00Z",
            (
                "chosen_profile",
                1,
                "ES",
                ProfileRequest(
                    sessions=(
                        ("2026-01-05", "2026-01-05"),
                        ("2025-12-29", "2026-01-02"),
                        ("2026-01-06", 1_767_794_400_000_000_000),
                    ),
                    split=(1_767_366_000_000_000_000, 1_767_367_800_000_000_000),
                ),
            ),
        ),
        (
            "/api/history?symbol=ES&from=2026-01-02&to=2026-01-05",
            ("history", 1, "ES", "2026-01-02", "2026-01-05"),
        ),
        ("/api/context?symbol=ES", ("context", 1, "ES")),
        ("/api/alerts", ("alerts", 1, None)),
        ("/api/alerts?symbol=", ("alerts", 1, None)),
        ("/api/alerts?symbol=+es%00", ("alerts", 1, "es\x00")),
        ("/api/alerts?symbol=" + "A" * 300, ("alerts", 1, "A" * 300)),
        ("/api/alerts/history", ("alerts_history", 1, None, None, None, None, None, None)),
        (
            "/api/alerts/history?symbol=ES&from=2026-01-02&to=2026-01-05&before=9&after=0&limit=500",
            ("alerts_history", 1, "ES", "2026-01-02", "2026-01-05", 9, 0, 500),
        ),
    ],
)
def test_each_endpoint_asks_its_question(harness: Harness, path: str, call: tuple[object, ...]) -> None:
    assert harness.get(path, harness.key()).status == 200
    assert harness.query.calls == [call]


def test_python_names_do_not_reach_the_wire(harness: Harness) -> None:
    body = json.loads(harness.get("/api/history?symbol=ES&from=2026-01-02", harness.key()).body)
    assert list(body) == ["symbol", "from", "to", "count", "sessions"]


@pytest.mark.parametrize(
    ("path", "status", "code", "parameter"),
    [
        ("/api/levels", 400, "missing_symbol", None),
        ("/api/levels?symbol=", 400, "missing_symbol", None),
        ("/api/levels?symbol=%20", 404, "unknown_symbol", None),
        ("/api/levels?Symbol=ES", 400, "missing_symbol", None),
        ("/api/profile", 400, "missing_symbol", None),
        ("/api/history", 400, "missing_symbol", None),
        ("/api/context", 400, "missing_symbol", None),
        ("/api/levels?symbol=ES&symbol=ES", 400, "invalid_parameter", "symbol"),
        ("/api/levels?symbol=ES&%73ymbol=", 400, "invalid_parameter", "symbol"),
        ("/api/levels?symbol=%ff", 400, "invalid_parameter", None),
        ("/api/levels?symbol=%ed%a0%80", 400, "invalid_parameter", None),
        ("/api/profile?symbol=ES&date=2026-02-30", 400, "invalid_parameter", "date"),
        ("/api/match?symbol=ES&poc=1&vah=2&val=1", 400, "invalid_parameter", "date"),
        ("/api/match?symbol=ES&date=2026-01-02&poc=1&vah=2", 400, "invalid_parameter", "val"),
        ("/api/match?symbol=ES&date=2026-01-02&poc=1e3&vah=2&val=1", 400, "invalid_parameter", "poc"),
        ("/api/match?symbol=ES&date=2026-01-02&poc=.5&vah=2&val=1", 400, "invalid_parameter", "poc"),
        (
            "/api/match?symbol=ES&date=2026-01-02&poc=1&vah=2&val=0.1234567891",
            400,
            "invalid_parameter",
            "val",
        ),
        ("/api/profile?symbol=ES&date=20260102", 400, "invalid_parameter", "date"),
        ("/api/profile?symbol=ES&date=2026-W01-1", 400, "invalid_parameter", "date"),
        ("/api/profile?symbol=ES&date=2026-01-02%0A", 400, "invalid_parameter", "date"),
        ("/api/profile?symbol=ES&date=%D9%A2026-01-02", 400, "invalid_parameter", "date"),
        ("/api/profile?symbol=ES&date=0000-01-01", 400, "invalid_parameter", "date"),
        ("/api/profile?symbol=ES&session=eth", 400, "invalid_parameter", "session"),
        ("/api/profile?symbol=ES&period=year", 400, "invalid_parameter", "period"),
        ("/api/profile?symbol=ES&delta=yes", 400, "invalid_parameter", "delta"),
        ("/api/profile?symbol=ES&anchor=2026-01-02", 400, "invalid_parameter", "anchor"),
        ("/api/profile?symbol=ES&anchor=2026-01-02T15:00:00", 400, "invalid_parameter", "anchor"),
        ("/api/profile?symbol=ES&bracket=31", 400, "invalid_parameter", "bracket"),
        ("/api/profile?symbol=ES&row=0", 400, "invalid_parameter", "row"),
        ("/api/profile?symbol=ES&row=401", 400, "invalid_parameter", "row"),
        ("/api/profile?symbol=ES&method=da-lton", 400, "invalid_parameter", "method"),
        ("/api/profile?symbol=ES&from=yesterday", 400, "invalid_parameter", "from"),
        ("/api/profile?symbol=ES&from=2026-01-02T15:00:00", 400, "invalid_parameter", "from"),
        ("/api/profile?symbol=ES&from=2026-01-02&to=2026-02-30", 400, "invalid_parameter", "to"),
        ("/api/profile?symbol=ES&sessions=2026-01-02,", 400, "invalid_parameter", "sessions"),
        ("/api/profile?symbol=ES&sessions=2026-01-02T15:00:00Z", 400, "invalid_parameter", "sessions"),
        (
            "/api/profile?symbol=ES&sessions=2026-01-02/2026-01-05/2026-01-06",
            400,
            "invalid_parameter",
            "sessions",
        ),
        (
            "/api/profile?symbol=ES&sessions=" + ",".join(["2026-01-02"] * 65),
            400,
            "invalid_parameter",
            "sessions",
        ),
        ("/api/profile?symbol=ES&split=2026-01-02", 400, "invalid_parameter", "split"),
        ("/api/profile?symbol=ES&split=2026-01-02T15:00:00Z,,", 400, "invalid_parameter", "split"),
        ("/api/history?symbol=ES&to=tomorrow", 400, "invalid_parameter", "to"),
        ("/api/alerts?symbol=ES&symbol=NQ", 400, "invalid_parameter", "symbol"),
        ("/api/alerts?symbol=%ff", 400, "invalid_parameter", None),
        ("/api/alerts/history?from=tomorrow", 400, "invalid_parameter", "from"),
        ("/api/alerts/history?limit=0", 400, "invalid_parameter", "limit"),
        ("/api/alerts/history?limit=501", 400, "invalid_parameter", "limit"),
        ("/api/alerts/history?limit=1.5", 400, "invalid_parameter", "limit"),
        ("/api/alerts/history?before=-1", 400, "invalid_parameter", "before"),
        ("/api/alerts/history?before=%D9%A1", 400, "invalid_parameter", "before"),
        ("/api/alerts/history?after=" + "9" * 5000, 400, "invalid_parameter", "after"),
        ("/api/levels?symbol=XX", 404, "unknown_symbol", None),
        ("/api/levels?symbol=E%00S", 404, "unknown_symbol", None),
        ("/api/levels?symbol=" + "A" * 65, 404, "unknown_symbol", None),
        ("/api/levels?symbol=" + "A" * 60000, 404, "unknown_symbol", None),
        ("/api/levels?symbol=%F0%9F%8C%B5", 404, "unknown_symbol", None),
        ("/api/profile?symbol=ES&date=1999-01-01", 404, "not_found", None),
        ("/api/levels/", 404, "not_found", None),
        ("/api/LEVELS?symbol=ES", 404, "not_found", None),
        ("/api/levels%00", 404, "not_found", None),
        ("/api/../api/levels?symbol=ES", 404, "not_found", None),
        ("/api/levels?symbol=NQ", 409, "no_licensed_source", None),
    ],
)
def test_refusals(harness: Harness, path: str, status: int, code: str, parameter: str | None) -> None:
    reply = harness.get(path, harness.key())
    body = json.loads(reply.body)
    assert (reply.status, body["status"], body["code"]) == (status, status, code)
    assert body.get("errors", [{}])[0].get("parameter") == parameter
    assert len(reply.body) < 600, "what was asked is not echoed at length"
    assert reply.headers["cache-control"] == "no-store"


def test_409_says_where_to_put_it_right(harness: Harness) -> None:
    body = json.loads(harness.get("/api/levels?symbol=NQ", harness.key()).body)
    assert body["fix"] == {"account": "/account", "brokerGuide": "/broker-guide"}
    assert body["reasons"] == ["not_granted"]


@pytest.mark.parametrize(
    ("accept_language", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT", "de"),
        ("DE-ch, en;q=0.9", "de"),
        ("en, de", "en"),
        ("en;q=0.2, de;q=0.3", "de"),
        ("fr, de;q=0.1", "de"),
        ("fr", "en"),
        ("*", "en"),
        ("de;q=0", "en"),
        ("en;q=0, *", "de"),
        ("de;q=banana", "de"),
        ("\x00,,;;q=,de", "de"),
        ("de" + ",x" * 5000, "de"),
        ("dede", "en"),
    ],
)
def test_messages_follow_the_reader_and_codes_do_not(accept_language: str, language: str) -> None:
    from outcry.http.errors import JSON_TYPE, Problem, render
    from outcry.http.messages import load_catalogue

    catalogue = load_catalogue()
    problem = Problem("unknown_symbol", "unknown_symbol", {"symbol": "XX"})
    rendered = render(problem, catalogue, catalogue.choose(accept_language), JSON_TYPE)
    body = rendered.body(b"1")
    answer = json.loads(body)
    assert dict(rendered.headers(body))[b"content-language"] == language.encode()
    assert (
        answer["message"]
        == {
            "en": "Unknown symbol XX. GET /api/symbols lists the products.",
            "de": "Unbekanntes Symbol XX. GET /api/symbols listet die Produkte auf.",
        }[language]
    )
    assert answer["code"] == "unknown_symbol"


def test_a_german_reader_over_the_wire(harness: Harness) -> None:
    reply = harness.get("/api/levels", harness.key(), headers={"Accept-Language": "de-DE,de;q=0.9,en;q=0.8"})
    assert reply.headers["content-language"] == "de"
    assert json.loads(reply.body)["message"].startswith("Der Parameter symbol fehlt.")


@pytest.mark.parametrize(
    ("accept", "is_problem"),
    [
        ("application/problem+json", True),
        ("application/problem+json, application/json", False),
        ("application/json;q=0.5, application/problem+json", True),
        ("*/*", False),
        ("text/html", False),
        ("application/*", False),
        ("application/problem+json;q=0", False),
        ("*/*;q=0.1, application/problem+json", True),
    ],
)
def test_problem_details_for_who_asks_for_them(harness: Harness, accept: str, is_problem: bool) -> None:
    reply = harness.get("/api/levels?symbol=XX", harness.key(), headers={"Accept": accept})
    body = json.loads(reply.body)
    assert reply.headers["content-type"] == ("application/problem+json" if is_problem else "application/json")
    assert ("type" in body) is is_problem
    assert (body["code"], body["suggestions"]) == ("unknown_symbol", ["ES"])
    if is_problem:
        assert body["type"] == "urn:outcry:error:unknown_symbol"
        assert body["title"] == "Unknown symbol"
        assert body["detail"] == body["message"]
        assert body["instance"].endswith(reply.headers["x-request-id"])


def test_head_is_get_without_the_body(harness: Harness) -> None:
    key = harness.key()
    head, get = harness.get(LEVELS, key, "HEAD"), harness.get(LEVELS, key)
    assert head.body == b""
    for name in ("content-length", "etag", "content-type", "cache-control", "vary"):
        assert head.headers[name] == get.headers[name]
    refused = harness.get("/api/levels", key, "HEAD")
    assert (refused.status, refused.body) == (400, b"")


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', '"x","y" , W/{} ', "*"])
def test_304_carries_the_headers_but_no_answer(harness: Harness, form: str) -> None:
    key = harness.key("free")
    first = harness.get(LEVELS, key)
    reply = harness.get(LEVELS, key, headers={"If-None-Match": form.format(first.headers["etag"])})
    assert (reply.status, reply.body) == (304, b"")
    assert reply.headers["etag"] == first.headers["etag"]
    assert reply.headers["x-ratelimit-remaining"] == "28"
    assert "content-type" not in reply.headers


@pytest.mark.parametrize("tag", ['"other"', "7a2b", '""', "", "W/"])
def test_another_tag_gets_the_answer(harness: Harness, tag: str) -> None:
    assert harness.get(LEVELS, harness.key(), headers={"If-None-Match": tag}).status == 200


def test_a_tag_does_not_open_what_the_key_may_not_see(harness: Harness) -> None:
    ann, bob = harness.key(), harness.key(email="bob@example.com")
    harness.query.private_to = 1
    tag = harness.get(LEVELS, ann).headers["etag"]
    for given in (tag, "*"):
        assert harness.get(LEVELS, bob, headers={"If-None-Match": given}).status == 409
        assert harness.get(LEVELS, headers={"If-None-Match": given}).status == 401


def test_one_users_answer_is_never_anothers(harness: Harness) -> None:
    ann, bob = harness.key(), harness.key(email="bob@example.com")
    harness.query.private_to = 1
    for _ in range(3):
        assert harness.get(LEVELS, ann).status == 200
        assert harness.get(LEVELS, bob).status == 409


def test_an_answer_is_computed_once_until_the_store_moves(harness: Harness) -> None:
    key = harness.key()
    known(harness)
    for _ in range(5):
        first = harness.get(LEVELS, key)
    assert len(harness.query.calls) == 1
    harness.query.poc = 6901.0
    harness.accounts.moves += 1
    wait_until(lambda: harness.get(LEVELS, key).body != first.body)
    reply = harness.get(LEVELS, key)
    assert json.loads(reply.body)["prior"]["poc"] == 6901.0
    assert reply.headers["etag"] != first.headers["etag"]
    assert len(harness.query.calls) == 2


def test_an_answer_that_goes_stale_by_itself_is_asked_for_again_in_time(harness: Harness) -> None:
    key = harness.key()
    harness.query.fresh_until_ns = harness.clock.at_ns + SECOND
    harness.get(LEVELS, key)
    harness.clock.at_ns += SECOND - 1
    harness.get(LEVELS, key)
    assert len(harness.query.calls) == 1
    harness.clock.at_ns += 1
    harness.get(LEVELS, key)
    assert len(harness.query.calls) == 2


def test_refusals_are_not_kept(harness: Harness) -> None:
    key = harness.key()
    harness.query.failure = StoreBusy()
    assert harness.get(LEVELS, key).status == 502
    harness.query.failure = None
    assert harness.get(LEVELS, key).status == 200


def test_many_who_ask_at_once_are_one_question(harness: Harness) -> None:
    key = harness.key()
    known(harness)
    harness.query.gate = threading.Event()
    with ThreadPoolExecutor(12) as pool:
        asking = [pool.submit(harness.get, LEVELS, key) for _ in range(12)]
        time.sleep(0.3)
        harness.query.gate.set()
        assert {future.result().status for future in asking} == {200}
    assert len(harness.query.calls) == 1


def test_a_store_that_hangs_is_a_502_and_no_reason_to_queue() -> None:
    with served(build_harness(query_timeout_s=0.2)) as harness:
        key = harness.key()
        harness.query.gate = threading.Event()
        reply = harness.get(LEVELS, key)  # the store blocks until the gate is opened below
        assert (reply.status, json.loads(reply.body)["code"]) == (502, "upstream_unavailable")
        assert harness.get("/healthz").status == 200
        harness.query.gate.set()
        wait_until(lambda: harness.get(LEVELS, key).status == 200)


def test_work_of_our_own_that_takes_long_is_no_502(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that does not respond for 0.2 s causes a 502; half a second of computing does not."""
    with served(build_harness(query_timeout_s=0.2)) as harness:
        key, ask = harness.key(), harness.query._ask

        def computing(*question: object) -> None:
            ends_s = time.thread_time() + 0.5
            while time.thread_time() < ends_s:
                pass
            ask(*question)  # type: ignore[arg-type]

        monkeypatch.setattr(harness.query, "_ask", computing)
        paths = [
            LEVELS,
            "/api/symbols",
            "/api/context?symbol=ES",
            "/api/profile?symbol=ES",
            "/api/history?symbol=ES",
        ]
        with ThreadPoolExecutor(len(paths)) as pool:  # one more than the number of threads
            assert [reply.status for reply in pool.map(lambda path: harness.get(path, key), paths)] == [
                200
            ] * len(paths)


def test_a_store_that_stops_answering_is_noticed_and_forgiven() -> None:
    with served(build_harness(query_timeout_s=0.2)) as harness:
        key = harness.key()
        assert harness.get(LEVELS, key).status == 200
        harness.accounts.busy = True
        wait_until(lambda: harness.get(LEVELS, key).status != 200)
        reply = harness.get(LEVELS, key)
        assert (reply.status, json.loads(reply.body)["code"]) == (502, "upstream_unavailable")
        assert reply.headers["x-api-tier"] == "admin"
        assert harness.get("/readyz").status == 502
        assert harness.get("/healthz").status == 200
        harness.accounts.busy = False
        assert harness.get(LEVELS, key).status == 200, "asked again at once, not at the next beat"
        assert harness.get("/readyz").status == 200


def test_a_part_that_goes_on_by_itself_is_told_of_while_requests_are_answered() -> None:
    alone: list[bool] = []
    degraded = {"limits": lambda: bool(alone), "store": lambda: False}
    with served(build_harness(parts={"degraded": degraded})) as harness:
        assert json.loads(harness.get("/readyz").body) == {"status": "ready"}
        alone.append(True)
        reply = harness.get("/readyz")
        assert (reply.status, json.loads(reply.body)) == (200, {"status": "degraded", "parts": ["limits"]})
        assert harness.get(LEVELS, harness.key()).status == 200


def test_a_store_shared_with_others_that_stops_answering_leaves_no_process_better_than_this_one() -> None:
    """A proxy thus continues to send requests, and clients receive the reason from the service."""
    with served(build_harness(query_timeout_s=0.2, shares_store=True)) as harness:
        key = harness.key()
        assert harness.get(LEVELS, key).status == 200
        harness.accounts.busy = True
        wait_until(lambda: harness.get("/readyz").body != b'{"status":"ready"}')
        reply = harness.get("/readyz")
        assert (reply.status, json.loads(reply.body)) == (200, {"status": "degraded", "parts": ["store"]})
        assert json.loads(harness.get(LEVELS, key).body)["code"] == "upstream_unavailable"
        harness.accounts.busy = False
        wait_until(lambda: json.loads(harness.get("/readyz").body) == {"status": "ready"})


def test_until_the_store_has_answered_the_service_is_starting() -> None:
    harness = build_harness()
    key = harness.key()
    harness.accounts.busy = True
    with served(harness):
        for path in (LEVELS, "/readyz"):
            reply = harness.get(path, key)
            assert (reply.status, json.loads(reply.body)["code"]) == (503, "starting")
            assert reply.headers["retry-after"] == "1"
        assert harness.get("/healthz").status == 200
        harness.accounts.busy = False
        wait_until(lambda: harness.get(LEVELS, key).status == 200)


def test_bodies_on_reads_are_ignored(harness: Harness) -> None:
    assert harness.get(LEVELS, harness.key(), body=b"x" * 5000).status == 200


def test_a_search_is_refused_while_another_runs(harness: Harness) -> None:
    """`Retry-After` is in whole seconds, rounded up."""
    harness.query.failure = Occupied("rate_limited.match", retry_after_ms=1500)
    reply = harness.get("/api/match?symbol=ES&date=2026-01-02&poc=1&vah=2&val=1", harness.key())
    body = json.loads(reply.body)
    assert (reply.status, body["code"], body["retry_after_ms"]) == (429, "rate_limited", 1500)
    assert reply.headers["retry-after"] == "2"
