"""A user's storage quota and the disk reserve over the complete service: pushes, replies, the account page, probes."""

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
from tests.web.sign_in_harness import ANN, SignInHarness, sign_in_service

from outcry.access.model import Role
from outcry.market.instruments import Contract
from outcry.trades.feed import LIVE_TRADE, Backfill, CaughtUp, FeedCaps, Resume, Trades
from outcry.trades.push_format import MEDIA_TYPE, Push, write_push
from outcry.trades.records import Quality

ES = Contract("ES", 2013, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, own_clock=True)
START_NS = 1_381_239_000_000_000_000  # 8 October 2013, 09:30 New York
KIB = 1024


def push(first: int) -> bytes:
    """One trade, the `first`-th event but one of a run."""
    rows = np.zeros(1, LIVE_TRADE)
    rows["price"], rows["size"], rows["side"] = 1_650_000_000_000, 1, b"N"
    rows["ts_event"] = rows["ts_recv"] = START_NS + first
    return write_push(Push("a" * 20, ES, CAPS, first, (CaughtUp(START_NS, Quality.TICKS), Trades(rows))))


def key(step: SignInHarness, role: Role = "ingest", email: str = ANN) -> str:
    return step.installation.keys.create(email, "free", step.clock.now_ns(), role=role)


def ask(
    step: SignInHarness, method: str, path: str, key: str, body: bytes | None = None, **headers: str
) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", step.port, timeout=30)
    try:
        connection.request(method, path, body, {"x-api-key": key, **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def send(step: SignInHarness, key: str, language: str = "en") -> tuple[int, Any]:
    headers = {"content-type": MEDIA_TYPE, "accept-language": language}
    return ask(step, "POST", "/api/ingest?feed=mine", key, push(0), **headers)


def fill(step: SignInHarness, user_id: int, count: int) -> None:
    """Have a user own so many bytes of tape."""
    place = step.installation.settings.folder / "tape" / f"user-{user_id}"
    place.mkdir(parents=True)
    (place / "made").write_bytes(b"\0" * count)


def test_a_user_near_the_quota_is_warned_in_the_reply_and_on_the_account_page(tmp_path: Path) -> None:
    """Of 1 MiB 900 KiB are used, which is 87 %, and the one trade that was just pushed."""
    with sign_in_service(tmp_path, push_quota_mib=1, disk_reserve_mib=0) as step:
        fill(step, step.person().id, 900 * KIB)
        status, body = send(step, key(step))
        assert (status, body["next"]) == (200, 2)
        assert body["quota"] == {
            "used_bytes": 900 * KIB + LIVE_TRADE.itemsize,
            "limit_bytes": 1024 * KIB,
            "streams": 1,
            "limit_streams": 64,
        }
        page = step.signed_in().get("/account/brokers").text
        assert "Almost full" in page
        assert "0 / 1 MiB" in page
        assert "Fast erschöpft" in step.signed_in(language="de").get("/account/brokers").text


def test_a_user_with_room_is_told_nothing_of_it(tmp_path: Path) -> None:
    with sign_in_service(tmp_path, push_quota_mib=1, disk_reserve_mib=0) as step:
        step.person()
        assert send(step, key(step)) == (200, {"next": 2})
        page = step.signed_in().get("/account/brokers").text
        assert "1 / 64" in page
        assert "Almost full" not in page


def test_a_used_up_quota_refuses_pushes_of_that_user_only(tmp_path: Path) -> None:
    with sign_in_service(tmp_path, push_quota_mib=1, disk_reserve_mib=0) as step:
        fill(step, step.person().id, 1024 * KIB)
        status, body = send(step, key(step), language="de")
        assert status == 422
        assert (body["code"], body["reason"]) == ("invalid_request", "quota")
        assert (body["used_bytes"], body["limit_bytes"]) == (1024 * KIB, 1024 * KIB)
        assert body["message"] == (
            "Ihr Kontingent von 1048576 Bytes für gesendete Daten ist aufgebraucht. Bitten Sie den Betreiber um ein "
            "größeres Kontingent."
        )
        assert send(step, key(step, "ingest-operator"))[0] == 200
        assert "push_quota_exceeded" in step.log.getvalue().decode()


def test_nothing_is_pushed_into_the_reserve_while_reading_goes_on(tmp_path: Path) -> None:
    """The reserve is larger than any disk."""
    with sign_in_service(tmp_path, disk_reserve_mib=1_048_576) as step:
        step.person()
        pushing, reading = key(step), key(step, "read")
        step.installation.disk.look()
        for one in (pushing, key(step, "ingest-operator")):
            status, body = send(step, one)
            assert (status, body["reason"], body["retry_after_ms"]) == (422, "disk_reserve", 5000)
        assert ask(step, "GET", "/readyz", reading) == (
            200,
            {"status": "degraded", "parts": ["disk_reserve"]},
        )
        assert ask(step, "GET", "/api/symbols", reading)[0] == 200
        assert step.signed_in().get("/account/brokers").status == 200
