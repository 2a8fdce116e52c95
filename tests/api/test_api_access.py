"""Keys, limits and response headers over real sockets."""

import json
import re

import pytest
from tests.api.harness import SECOND, SERVER_SECRET, Got, Stage, build_stage, known, served
from tests.timeouts import seconds_until

from outcry.access.keys import ApiKeys
from outcry.access.model import GrantRow
from outcry.api.endpoints import ENDPOINTS

LEVELS = "/api/levels?symbol=ES"
ALWAYS = {
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-api-tier",
    "ratelimit",
    "ratelimit-policy",
    "x-request-id",
    "vary",
    "cache-control",
    "x-content-type-options",
}


def code(got: Got) -> str:
    body = json.loads(got.body)
    assert body["status"] == got.status
    assert body["request_id"] == got.headers["x-request-id"]
    return str(body["code"])


def reason(got: Got) -> str:
    assert (got.status, code(got)) == (401, "unauthorized")
    assert got.headers["x-api-tier"] == "anonymous"
    assert got.headers["x-ratelimit-limit"] == "30"
    assert got.headers["www-authenticate"].startswith("ApiKey")
    return str(json.loads(got.body)["reason"])


@pytest.mark.parametrize(("tier", "limit"), [("free", 30), ("pro", 120), ("admin", 600)])
def test_a_tier_sets_the_limit(stage: Stage, tier: str, limit: int) -> None:
    got = stage.get(LEVELS, stage.key(tier))  # type: ignore[arg-type]
    assert got.status == 200
    assert got.headers["x-api-tier"] == tier
    assert got.headers["x-ratelimit-limit"] == str(limit)
    assert got.headers["x-ratelimit-remaining"] == str(limit - 1)
    assert got.headers["x-ratelimit-reset"] == "60"
    assert got.headers["ratelimit"] == f'"default";r={limit - 1};t=60'
    assert got.headers["ratelimit-policy"] == f'"default";q={limit};w=60'


def test_every_response_says_where_the_caller_stands(stage: Stage) -> None:
    key = stage.key()
    stage.query.failure = None
    answers = [
        stage.get(LEVELS, key),
        stage.get(LEVELS, key, "HEAD"),
        stage.get("/api/levels", key),
        stage.get(LEVELS),
        stage.get("/api/levels?symbol=XX", key),
        stage.get("/api/nothing", key),
        stage.get("/api", key),
        stage.get(LEVELS, key, "DELETE"),
        stage.get(LEVELS, key, "OPTIONS"),
        stage.get("/api/levels?symbol=NQ", key),
        stage.get("/healthz"),
        stage.get("/readyz"),
        stage.get("/metrics"),
        stage.get("/openapi.json"),
        stage.get("/nowhere"),
        stage.get("/healthz", method="POST"),
        stage.get("//api/levels"),
    ]
    stage.query.failure = RuntimeError("a secret of the house")
    answers.append(stage.get("/api/context?symbol=ES", key))
    statuses = [got.status for got in answers]
    assert statuses == [
        200,
        200,
        400,
        401,
        404,
        404,
        404,
        405,
        405,
        409,
        200,
        200,
        200,
        200,
        404,
        405,
        404,
        500,
    ]
    for got in answers:
        assert set(got.headers) >= ALWAYS, got
        assert b"secret of the house" not in got.body
    assert b"secret of the house" in stage.log.getvalue()


def test_a_failing_request_tells_the_callers_own_tier(stage: Stage) -> None:
    stage.query.failure = RuntimeError("x")
    assert stage.get(LEVELS, stage.key("pro")).headers["x-api-tier"] == "pro"


def test_the_31st_request_is_refused_and_the_refusal_not_counted(stage: Stage) -> None:
    key = stage.key("free")
    for left in range(29, -1, -1):
        assert stage.get(LEVELS, key).headers["x-ratelimit-remaining"] == str(left)
    stage.steady.at_ns += 20 * SECOND + 1
    for _ in range(3):
        got = stage.get(LEVELS, key)
        assert (got.status, code(got)) == (429, "rate_limited")
        assert json.loads(got.body)["retry_after_ms"] == 40_000
        assert got.headers["retry-after"] == "40"
        assert got.headers["x-api-tier"] == "free"
        assert got.headers["x-ratelimit-remaining"] == "0"
    stage.steady.at_ns += 40 * SECOND - 1
    assert stage.get(LEVELS, key).status == 200


@pytest.mark.parametrize("step_s", [70, -70])
def test_a_step_of_the_machines_clock_opens_no_new_window_and_closes_none(stage: Stage, step_s: int) -> None:
    """30 requests, a step, 30 more, a step back: 30 pass in all. A minute after they came 30 more do."""
    key, passed = stage.key("free"), 0
    for number in range(90):
        if number % 30 == 0:
            stage.clock.at_ns += step_s * SECOND * (1 if number != 60 else -2)
        passed += stage.get(LEVELS, key).status == 200
    assert passed == 30
    stage.steady.at_ns += 60 * SECOND
    assert [stage.get(LEVELS, key).status for _ in range(31)] == [200] * 30 + [429]


def test_a_wait_below_a_second_is_announced_as_one(stage: Stage) -> None:
    key = stage.key("free")
    for _ in range(30):
        stage.get(LEVELS, key)
    stage.steady.at_ns += 60 * SECOND - 1
    got = stage.get(LEVELS, key)
    assert got.headers["retry-after"] == "1"
    assert json.loads(got.body)["retry_after_ms"] == 1


def test_refused_answers_count_but_probes_do_not(stage: Stage) -> None:
    key = stage.key("free")
    for path in ("/api/levels", "/api/levels?symbol=XX", "/api/levels?symbol=NQ", "/api/nothing"):
        stage.get(path, key)
    stage.get(LEVELS, key, "POST")
    for path in ("/healthz", "/readyz", "/openapi.json", "/metrics"):
        assert stage.get(path, key).headers["x-ratelimit-remaining"] == "25"
    assert stage.get(LEVELS, key).headers["x-ratelimit-remaining"] == "24"


def test_two_keys_of_a_user_have_a_limit_each(stage: Stage) -> None:
    one, other = stage.key("free"), stage.key("free")
    stage.get(LEVELS, one)
    assert stage.get(LEVELS, other).headers["x-ratelimit-remaining"] == "29"


def test_strangers_are_counted_by_address_and_do_not_use_up_a_keys_limit(stage: Stage) -> None:
    key = stage.key("free")
    for _ in range(30):
        assert stage.get(LEVELS).status == 401
    got = stage.get(LEVELS)
    assert (got.status, code(got)) == (429, "rate_limited")
    assert got.headers["x-api-tier"] == "anonymous"
    assert stage.get(LEVELS, key).headers["x-ratelimit-remaining"] == "29"


def test_why_a_key_is_refused(stage: Stage) -> None:
    key = stage.key()
    assert reason(stage.get(LEVELS)) == "missing"
    assert reason(stage.get(LEVELS, "")) == "missing"
    assert reason(stage.get(LEVELS, key[:-1])) == "malformed"
    assert reason(stage.get(LEVELS, key.swapcase())) == "malformed"
    assert reason(stage.get(LEVELS, "é" * 56)) == "malformed"
    other = build_stage().key()
    assert reason(stage.get(LEVELS, other)) == "unknown"
    stage.keys.revoke(key[:15], stage.clock.now_ns())
    assert reason(stage.get(LEVELS, key)) == "revoked"
    ending = stage.keys.create("ann@example.com", "free", 0, expires_ns=stage.clock.now_ns())
    assert reason(stage.get(LEVELS, ending)) == "expired"
    outcast = stage.key(email="bob@example.com")
    stage.accounts.change(3, disabled_ns=1)
    stage.keys.refresh(stage.clock.now_ns(), force=True)
    assert reason(stage.get(LEVELS, outcast)) == "disabled"


def test_a_key_that_sends_trades_reads_nothing(stage: Stage) -> None:
    """It is counted like any other, told of unknown addresses, and never asks the query service."""
    key = stage.key("pro", role="ingest")
    for n, endpoint in enumerate(ENDPOINTS, 1):
        got = stage.get(f"{endpoint.path}?symbol=ES", key)
        assert (got.status, code(got)) == (403, "forbidden")
        assert got.headers["x-api-tier"] == "pro"
        assert got.headers["x-ratelimit-remaining"] == str(120 - n)
        assert "only send trades" in json.loads(got.body)["message"]
    assert stage.get(LEVELS, key, headers={"accept-language": "de"}).body.count(b"nur Trades senden") == 1
    assert stage.get(LEVELS, key, "HEAD").status == 403
    assert stage.get("/api/nothing", key).status == 404
    assert stage.query.calls == []
    assert stage.get(LEVELS, stage.key()).status == 200
    assert stage.get(LEVELS, key).status == 403


def test_an_unknown_path_tells_a_stranger_nothing(stage: Stage) -> None:
    assert reason(stage.get("/api/nothing")) == "missing"
    assert reason(stage.get("/api/levels", method="DELETE")) == "missing"


@pytest.mark.parametrize(
    "query",
    [
        "key=1",
        "api_key=1",
        "APIKEY=1",
        "x-api-key=1",
        "X-API-Key=1",
        "token=",
        "access_token",
        "symbol=ES&Token=1",
        "symbol=ES;key=1",
        "k%65y=1",
        "api%5Fkey=1",
        "symbol=ES&%6Bey=1",
        "symbol={key}",
        "symbol=ES&a={key}",
        "{key}",
        "a=OUTCRY_abc",
        "a=%6Futcry_abc",
        "a=outcry%5Fabc",
        "a=%256Futcry_abc",
        "a=%25256Futcry_abc",
        "symbol=ES&%61%70%69%5f%6b%65%79=x",
        "key[]=1",
        "+key=1",
        "a=b%26key=1",
    ],
)
def test_a_key_in_the_address_is_refused_beside_a_good_header_and_not_logged(
    stage: Stage, query: str
) -> None:
    key = stage.key()
    other = "outcry_" + "Q" * 49
    assert reason(stage.get(f"/api/levels?{query.format(key=other)}", key)) == "key_in_query"
    stage.get(f"/healthz?{query.format(key=other)}")
    stage.get(f"/{other}?{query.format(key=other)}")
    seconds_until(lambda: stage.log.getvalue().count(b"[redacted]") >= 3)
    log = stage.log.getvalue()
    assert b"QQQQ" not in log
    assert not re.search(rb"outcry_.*abc|utcry_abc", log)


@pytest.mark.parametrize("query", ["symbol=ES&monkey=1", "symbol=ES&keyword=key", "symbol=ES&tokens=token"])
def test_names_that_only_contain_such_a_word_are_ignored(stage: Stage, query: str) -> None:
    assert stage.get(f"/api/levels?{query}", stage.key()).status == 200


def test_a_key_made_by_another_process_works_at_once(stage: Stage) -> None:
    """The next look at the store is waited for before a well-formed key is called unknown."""
    key = ApiKeys(stage.accounts, SERVER_SECRET, stage.clock).create(
        "bob@example.com", "pro", stage.clock.now_ns()
    )
    assert stage.get(LEVELS, key).status == 200


def test_a_revocation_by_another_process_holds_within_a_second(stage: Stage) -> None:
    """The service looks at the store several times a second: the next look is enough."""
    key = stage.key()
    assert stage.get(LEVELS, key).status == 200
    ApiKeys(stage.accounts, SERVER_SECRET, stage.clock).revoke(key, stage.clock.now_ns())
    known(stage)
    assert reason(stage.get(LEVELS, key)) == "revoked"


def test_a_grant_by_another_process_reaches_the_scope(stage: Stage) -> None:
    key = stage.key()
    stage.get(LEVELS, key)
    stage.accounts.add_grant(
        GrantRow(0, "everyone", "completed", (), None, None, 0, None), stage.clock.now_ns()
    )
    known(stage)
    before = len(stage.query.calls)
    assert stage.get(LEVELS, key).status == 200
    assert len(stage.query.calls) == before + 1, "answered from what was computed under the old scope"


def test_a_sane_request_id_is_kept_and_any_other_replaced(stage: Stage) -> None:
    key = stage.key()
    assert (
        stage.get(LEVELS, key, headers={"X-Request-Id": "job-7.b:1"}).headers["x-request-id"] == "job-7.b:1"
    )
    for bad in ("", " ", "a b", "x" * 65, 'a"b', "é", key, key.upper(), "a\tb", "<script>"):
        got = stage.get(LEVELS, key, headers={"X-Request-Id": bad})
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]{8,}", got.headers["x-request-id"]), bad


def test_request_ids_differ(stage: Stage) -> None:
    key = stage.key()
    assert len({stage.get(LEVELS, key).headers["x-request-id"] for _ in range(20)}) == 20


def test_the_log_has_a_line_for_each_request_and_no_key(stage: Stage) -> None:
    key = stage.key()
    for _ in range(5):
        stage.get(LEVELS, key)
    stage.get("/api/levels?symbol=XX", key)
    seconds_until(lambda: stage.log.getvalue().count(b'"request"') >= 6)
    lines = [json.loads(line) for line in stage.log.getvalue().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [line["status"] for line in requests] == [200] * 5 + [404]
    assert {line["caller"] for line in requests} == {key[:15]}
    assert requests[0]["at"] == "2026-01-02T15:04:05.123Z"
    assert key[15:].encode() not in stage.log.getvalue()


def test_without_the_access_log_events_are_still_written() -> None:
    with served(build_stage(access_log=False)) as stage:
        stage.query.failure = RuntimeError("boom")
        stage.get(LEVELS, stage.key())
    lines = [json.loads(line) for line in stage.log.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["request_failed"]
    assert "boom" in lines[0]["exception"]
