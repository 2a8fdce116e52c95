"""Keys, limits and response headers over real sockets."""

import json
import re

import pytest
from tests.api.harness import SECOND, SERVER_SECRET, Harness, Reply, build_harness, known, served
from tests.timeouts import wait_until

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


def code(reply: Reply) -> str:
    body = json.loads(reply.body)
    assert body["status"] == reply.status
    assert body["request_id"] == reply.headers["x-request-id"]
    return str(body["code"])


def reason(reply: Reply) -> str:
    assert (reply.status, code(reply)) == (401, "unauthorized")
    assert reply.headers["x-api-tier"] == "anonymous"
    assert reply.headers["x-ratelimit-limit"] == "30"
    assert reply.headers["www-authenticate"].startswith("ApiKey")
    return str(json.loads(reply.body)["reason"])


@pytest.mark.parametrize(("tier", "limit"), [("free", 30), ("pro", 120), ("admin", 600)])
def test_a_tier_sets_the_limit(harness: Harness, tier: str, limit: int) -> None:
    reply = harness.get(LEVELS, harness.key(tier))  # type: ignore[arg-type]
    assert reply.status == 200
    assert reply.headers["x-api-tier"] == tier
    assert reply.headers["x-ratelimit-limit"] == str(limit)
    assert reply.headers["x-ratelimit-remaining"] == str(limit - 1)
    assert reply.headers["x-ratelimit-reset"] == "60"
    assert reply.headers["ratelimit"] == f'"default";r={limit - 1};t=60'
    assert reply.headers["ratelimit-policy"] == f'"default";q={limit};w=60'


def test_every_response_says_where_the_caller_stands(harness: Harness) -> None:
    key = harness.key()
    harness.query.failure = None
    answers = [
        harness.get(LEVELS, key),
        harness.get(LEVELS, key, "HEAD"),
        harness.get("/api/levels", key),
        harness.get(LEVELS),
        harness.get("/api/levels?symbol=XX", key),
        harness.get("/api/nothing", key),
        harness.get("/api", key),
        harness.get(LEVELS, key, "DELETE"),
        harness.get(LEVELS, key, "OPTIONS"),
        harness.get("/api/levels?symbol=NQ", key),
        harness.get("/healthz"),
        harness.get("/readyz"),
        harness.get("/metrics"),
        harness.get("/openapi.json"),
        harness.get("/nowhere"),
        harness.get("/healthz", method="POST"),
        harness.get("//api/levels"),
    ]
    harness.query.failure = RuntimeError("a secret of the house")
    answers.append(harness.get("/api/context?symbol=ES", key))
    statuses = [reply.status for reply in answers]
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
    for reply in answers:
        assert set(reply.headers) >= ALWAYS, reply
        assert b"secret of the house" not in reply.body
    assert b"secret of the house" in harness.log.getvalue()


def test_a_failing_request_tells_the_callers_own_tier(harness: Harness) -> None:
    harness.query.failure = RuntimeError("x")
    assert harness.get(LEVELS, harness.key("pro")).headers["x-api-tier"] == "pro"


def test_the_31st_request_is_refused_and_the_refusal_not_counted(harness: Harness) -> None:
    key = harness.key("free")
    for left in range(29, -1, -1):
        assert harness.get(LEVELS, key).headers["x-ratelimit-remaining"] == str(left)
    harness.steady.at_ns += 20 * SECOND + 1
    for _ in range(3):
        reply = harness.get(LEVELS, key)
        assert (reply.status, code(reply)) == (429, "rate_limited")
        assert json.loads(reply.body)["retry_after_ms"] == 40_000
        assert reply.headers["retry-after"] == "40"
        assert reply.headers["x-api-tier"] == "free"
        assert reply.headers["x-ratelimit-remaining"] == "0"
    harness.steady.at_ns += 40 * SECOND - 1
    assert harness.get(LEVELS, key).status == 200


@pytest.mark.parametrize("step_s", [70, -70])
def test_a_step_of_the_machines_clock_opens_no_new_window_and_closes_none(
    harness: Harness, step_s: int
) -> None:
    """A step of the clock and a step back allow 30 requests in total, and 30 more after a minute."""
    key, passed = harness.key("free"), 0
    for number in range(90):
        if number % 30 == 0:
            harness.clock.at_ns += step_s * SECOND * (1 if number != 60 else -2)
        passed += harness.get(LEVELS, key).status == 200
    assert passed == 30
    harness.steady.at_ns += 60 * SECOND
    assert [harness.get(LEVELS, key).status for _ in range(31)] == [200] * 30 + [429]


def test_a_wait_below_a_second_is_announced_as_one(harness: Harness) -> None:
    key = harness.key("free")
    for _ in range(30):
        harness.get(LEVELS, key)
    harness.steady.at_ns += 60 * SECOND - 1
    reply = harness.get(LEVELS, key)
    assert reply.headers["retry-after"] == "1"
    assert json.loads(reply.body)["retry_after_ms"] == 1


def test_refused_answers_count_but_probes_do_not(harness: Harness) -> None:
    key = harness.key("free")
    for path in ("/api/levels", "/api/levels?symbol=XX", "/api/levels?symbol=NQ", "/api/nothing"):
        harness.get(path, key)
    harness.get(LEVELS, key, "POST")
    for path in ("/healthz", "/readyz", "/openapi.json", "/metrics"):
        assert harness.get(path, key).headers["x-ratelimit-remaining"] == "25"
    assert harness.get(LEVELS, key).headers["x-ratelimit-remaining"] == "24"


def test_two_keys_of_a_user_have_a_limit_each(harness: Harness) -> None:
    one, other = harness.key("free"), harness.key("free")
    harness.get(LEVELS, one)
    assert harness.get(LEVELS, other).headers["x-ratelimit-remaining"] == "29"


def test_strangers_are_counted_by_address_and_do_not_use_up_a_keys_limit(harness: Harness) -> None:
    key = harness.key("free")
    for _ in range(30):
        assert harness.get(LEVELS).status == 401
    reply = harness.get(LEVELS)
    assert (reply.status, code(reply)) == (429, "rate_limited")
    assert reply.headers["x-api-tier"] == "anonymous"
    assert harness.get(LEVELS, key).headers["x-ratelimit-remaining"] == "29"


def test_why_a_key_is_refused(harness: Harness) -> None:
    key = harness.key()
    assert reason(harness.get(LEVELS)) == "missing"
    assert reason(harness.get(LEVELS, "")) == "missing"
    assert reason(harness.get(LEVELS, key[:-1])) == "malformed"
    assert reason(harness.get(LEVELS, key.swapcase())) == "malformed"
    assert reason(harness.get(LEVELS, "é" * 56)) == "malformed"
    other = build_harness().key()
    assert reason(harness.get(LEVELS, other)) == "unknown"
    harness.keys.revoke(key[:15], harness.clock.now_ns())
    assert reason(harness.get(LEVELS, key)) == "revoked"
    ending = harness.keys.create("ann@example.com", "free", 0, expires_ns=harness.clock.now_ns())
    assert reason(harness.get(LEVELS, ending)) == "expired"
    outcast = harness.key(email="bob@example.com")
    harness.accounts.change(3, disabled_ns=1)
    harness.keys.refresh(harness.clock.now_ns(), force=True)
    assert reason(harness.get(LEVELS, outcast)) == "disabled"


def test_a_key_that_sends_trades_reads_nothing(harness: Harness) -> None:
    """Its requests count towards the limit; unknown URLs return 404, and the query service is never called."""
    key = harness.key("pro", role="ingest")
    for n, endpoint in enumerate(ENDPOINTS, 1):
        reply = harness.get(f"{endpoint.path}?symbol=ES", key)
        assert (reply.status, code(reply)) == (403, "forbidden")
        assert reply.headers["x-api-tier"] == "pro"
        assert reply.headers["x-ratelimit-remaining"] == str(120 - n)
        assert "only send trades" in json.loads(reply.body)["message"]
    assert harness.get(LEVELS, key, headers={"accept-language": "de"}).body.count(b"nur Trades senden") == 1
    assert harness.get(LEVELS, key, "HEAD").status == 403
    assert harness.get("/api/nothing", key).status == 404
    assert harness.query.calls == []
    assert harness.get(LEVELS, harness.key()).status == 200
    assert harness.get(LEVELS, key).status == 403


def test_an_unknown_path_tells_a_stranger_nothing(harness: Harness) -> None:
    assert reason(harness.get("/api/nothing")) == "missing"
    assert reason(harness.get("/api/levels", method="DELETE")) == "missing"


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
    harness: Harness, query: str
) -> None:
    key = harness.key()
    other = "outcry_" + "Q" * 49
    assert reason(harness.get(f"/api/levels?{query.format(key=other)}", key)) == "key_in_query"
    harness.get(f"/healthz?{query.format(key=other)}")
    harness.get(f"/{other}?{query.format(key=other)}")
    wait_until(lambda: harness.log.getvalue().count(b"[redacted]") >= 3)
    log = harness.log.getvalue()
    assert b"QQQQ" not in log
    assert not re.search(rb"outcry_.*abc|utcry_abc", log)


@pytest.mark.parametrize("query", ["symbol=ES&monkey=1", "symbol=ES&keyword=key", "symbol=ES&tokens=token"])
def test_names_that_only_contain_such_a_word_are_ignored(harness: Harness, query: str) -> None:
    assert harness.get(f"/api/levels?{query}", harness.key()).status == 200


def test_a_key_made_by_another_process_works_at_once(harness: Harness) -> None:
    """A well-formed key is refused as unknown only after the next poll of the store."""
    key = ApiKeys(harness.accounts, SERVER_SECRET, harness.clock).create(
        "bob@example.com", "pro", harness.clock.now_ns()
    )
    assert harness.get(LEVELS, key).status == 200


def test_a_revocation_by_another_process_holds_within_a_second(harness: Harness) -> None:
    """The next poll suffices, because the service polls the store several times a second."""
    key = harness.key()
    assert harness.get(LEVELS, key).status == 200
    ApiKeys(harness.accounts, SERVER_SECRET, harness.clock).revoke(key, harness.clock.now_ns())
    known(harness)
    assert reason(harness.get(LEVELS, key)) == "revoked"


def test_a_grant_by_another_process_reaches_the_scope(harness: Harness) -> None:
    key = harness.key()
    harness.get(LEVELS, key)
    harness.accounts.add_grant(
        GrantRow(0, "everyone", "completed", (), None, None, 0, None), harness.clock.now_ns()
    )
    known(harness)
    before = len(harness.query.calls)
    assert harness.get(LEVELS, key).status == 200
    assert len(harness.query.calls) == before + 1, "answered from what was computed under the old scope"


def test_a_sane_request_id_is_kept_and_any_other_replaced(harness: Harness) -> None:
    key = harness.key()
    assert (
        harness.get(LEVELS, key, headers={"X-Request-Id": "job-7.b:1"}).headers["x-request-id"] == "job-7.b:1"
    )
    for bad in ("", " ", "a b", "x" * 65, 'a"b', "é", key, key.upper(), "a\tb", "<script>"):
        reply = harness.get(LEVELS, key, headers={"X-Request-Id": bad})
        assert re.fullmatch(r"[0-9a-f]{12}-[0-9a-f]{8,}", reply.headers["x-request-id"]), bad


def test_request_ids_differ(harness: Harness) -> None:
    key = harness.key()
    assert len({harness.get(LEVELS, key).headers["x-request-id"] for _ in range(20)}) == 20


def test_the_log_has_a_line_for_each_request_and_no_key(harness: Harness) -> None:
    key = harness.key()
    for _ in range(5):
        harness.get(LEVELS, key)
    harness.get("/api/levels?symbol=XX", key)
    wait_until(lambda: harness.log.getvalue().count(b'"request"') >= 6)
    lines = [json.loads(line) for line in harness.log.getvalue().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert [line["status"] for line in requests] == [200] * 5 + [404]
    assert {line["caller"] for line in requests} == {key[:15]}
    assert requests[0]["at"] == "2026-01-02T15:04:05.123Z"
    assert key[15:].encode() not in harness.log.getvalue()


def test_without_the_access_log_events_are_still_written() -> None:
    with served(build_harness(access_log=False)) as harness:
        harness.query.failure = RuntimeError("boom")
        harness.get(LEVELS, harness.key())
    lines = [json.loads(line) for line in harness.log.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["request_failed"]
    assert "boom" in lines[0]["exception"]
