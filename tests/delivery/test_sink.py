"""The demo's receiver: what it stores, how much, and which signatures it accepts.

Signatures are made by the public `standardwebhooks` library.
"""

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from outcry.delivery.sink import MOST_RECEIPTS, MOST_SECRETS, Manner, SecretRefused, Signature, Sink

NOW_S = 1_772_640_000
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()
BODY = b'{"version":2,"text":"ES","alerts":[]}'


class StillClock:
    def __init__(self) -> None:
        self.at_s = NOW_S

    def now_ns(self) -> int:
        return self.at_s * 10**9


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def sink(clock: StillClock) -> Sink:
    return Sink("https://localhost:1/in", clock)


def signed(*secrets: str, message_id: str = "msg_1", body: bytes = BODY) -> list[tuple[str, str]]:
    at = datetime.fromtimestamp(NOW_S, UTC)
    signatures = [Webhook(secret).sign(message_id, at, body.decode()) for secret in secrets]
    return [
        ("Webhook-Id", message_id),
        ("Webhook-Timestamp", str(NOW_S)),
        ("Webhook-Signature", " ".join(signatures)),
    ]


def test_a_signature_by_a_secret_that_was_given_is_good(sink: Sink) -> None:
    sink.take(signed(SECRET), BODY)
    (receipt,) = sink.receipts
    assert sink.signature(receipt) is Signature.UNKNOWN
    sink.trust(OTHER)
    assert sink.signature(receipt) is Signature.BAD
    sink.trust(SECRET)
    assert sink.signature(receipt) is Signature.GOOD
    assert sink.secrets == [SECRET[-4:], OTHER[-4:]]


def test_one_good_signature_of_two_suffices(sink: Sink) -> None:
    sink.trust(OTHER)
    sink.take(signed(SECRET, OTHER), BODY)
    assert sink.signature(sink.receipts[0]) is Signature.GOOD


def test_another_body_id_or_time_is_not_what_was_signed(sink: Sink) -> None:
    sink.trust(SECRET)
    id_, at, signature = signed(SECRET)
    for headers, body in (
        ([id_, at, signature], BODY + b" "),
        ([("webhook-id", "msg_2"), at, signature], BODY),
        ([id_, ("webhook-timestamp", str(NOW_S + 1)), signature], BODY),
    ):
        sink.take(headers, body)
        assert sink.signature(sink.receipts[0]) is Signature.BAD
    for missing in (id_, at, signature):
        sink.take([one for one in (id_, at, signature) if one is not missing], BODY)
        assert sink.signature(sink.receipts[0]) is Signature.MISSING


def test_a_valid_signature_ten_minutes_late_is_reported_as_late(sink: Sink, clock: StillClock) -> None:
    sink.trust(SECRET)
    for late_s, worth in ((300, Signature.GOOD), (301, Signature.OLD), (-301, Signature.OLD)):
        clock.at_s = NOW_S + late_s
        sink.take(signed(SECRET), BODY)
        assert sink.signature(sink.receipts[0]) is worth


@pytest.mark.parametrize(
    "text",
    ["", "whsec_", "whsec_!!!!", SECRET.removeprefix("whsec_"), "whsec_AAAA", SECRET + "A" * 200, "whsec_ä"],
)
def test_an_invalid_secret_is_refused(sink: Sink, text: str) -> None:
    with pytest.raises(SecretRefused):
        sink.trust(text)
    assert sink.secrets == []


def test_a_message_that_comes_again_is_recognised_by_its_id(sink: Sink) -> None:
    for message_id in ("msg_1", "msg_2", "msg_1", ""):
        sink.take([*signed(SECRET, message_id=message_id or "x")[1:], ("webhook-id", message_id)], BODY)
    sink.take([], BODY)
    sink.take([], BODY)
    assert [one.tries for one in reversed(sink.receipts)] == [1, 1, 2, 1, 1, 1]
    assert [one.number for one in sink.receipts] == [6, 5, 4, 3, 2, 1]


def test_headers_that_are_not_text_are_accepted(sink: Sink) -> None:
    """The server decodes each header byte that is not UTF-8 as one character."""
    sink.trust(SECRET)
    odd = b"msg_\xff\xfe".decode("utf-8", "surrogateescape")
    for headers in (
        [("webhook-id", odd), ("webhook-timestamp", "1"), ("webhook-signature", "v1,x")],
        [("webhook-id", "msg_1"), ("webhook-timestamp", "1"), ("webhook-signature", f"v1,{odd} \ud800")],
    ):
        sink.take(headers, BODY)
        assert sink.signature(sink.receipts[0]) is Signature.BAD


def test_of_headers_no_more_is_kept_than_deliveries_have(sink: Sink) -> None:
    sink.take([("webhook-id", "msg_1"), *((f"x-{number}", "x" * 8000) for number in range(100))], BODY)
    assert sink.receipts[0].headers == (("webhook-id", "msg_1"),)


def test_the_receiver_sends_the_scripted_response(sink: Sink) -> None:
    assert sink.take([], BODY) is Manner.WELL
    sink.manner = Manner.GONE
    assert sink.take([], BODY) is Manner.GONE
    assert [one.status for one in sink.receipts] == [410, 200]


def test_the_receivers_memory_is_bounded(sink: Sink) -> None:
    for number in range(MOST_RECEIPTS + 5):
        sink.take([("webhook-id", str(number))], BODY)
    assert len(sink.receipts) == MOST_RECEIPTS
    assert sink.receipts[-1].message_id == "5"
    for number in range(MOST_SECRETS + 5):
        sink.trust("whsec_" + base64.b64encode(number.to_bytes(32, "big")).decode())
    assert len(sink.secrets) == MOST_SECRETS
    sink.clear()
    assert sink.receipts == []
    sink.take([], BODY)
    assert sink.receipts[0].number == MOST_RECEIPTS + 6
