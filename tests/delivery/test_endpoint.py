"""A generic endpoint: the request that is posted, and the meaning of every response."""

import asyncio
import json
from base64 import b64encode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from time import time_ns  # noqa: TID251 - the library goes by the machine's clock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook
from support.certificates import Certificate, certificate
from tests.delivery.messages import (
    HOOK,
    NOW_NS,
    PAGES,
    ScriptedEgress,
    StillClock,
    alert,
    make_message,
    reply,
    send,
)

from outcry.delivery.egress import Egress, Reply
from outcry.delivery.https_webhook import HttpsSender
from outcry.delivery.model import Target
from outcry.delivery.replies import LONGEST_EXCERPT, excerpt, retry_after_ns
from outcry.delivery.resolver import GuardedResolver
from outcry.delivery.schedule import LONGEST_WAIT_NS
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import read_rule
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_SECOND

SECRET = "whsec_" + "bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmU="
S = NANOS_PER_SECOND


def answered(answer: Reply) -> SendResult:
    egress = ScriptedEgress([answer])
    return send(
        HttpsSender(egress, PAGES, StillClock()), make_message(Target.HTTPS, [alert()]), secrets=[SECRET]
    )


def in_http(seconds: float) -> str:
    """Return a time this far from now in the format of HTTP headers."""
    now = datetime.fromtimestamp(NOW_NS // S, UTC)
    return format_datetime(now + timedelta(seconds=seconds), usegmt=True)


def test_the_posted_request() -> None:
    egress = ScriptedEgress([reply(204)])
    alerts = [alert(), alert(symbol="NQ"), alert(at_ms=1_767_366_250_000)]
    sent = send(
        HttpsSender(egress, PAGES, StillClock()), make_message(Target.HTTPS, alerts), secrets=[SECRET]
    )
    ((address, body, headers),) = egress.posts
    assert address == HOOK
    assert [one["symbol"] for one in json.loads(body)["alerts"]] == ["ES", "NQ", "ES"]
    assert headers.pop("webhook-signature").startswith("v1,")
    assert headers == {
        "content-type": "application/json",
        "webhook-id": "msg_2yZC7cDjpkJZ",
        "webhook-timestamp": "1767366245",
        "outcry-seq": "ES=41 NQ=41 ES=42",
    }
    assert (sent.verdict, sent.code, sent.status) == (Verdict.ARRIVED, "ok", 204)
    assert sent.request == body.decode()
    assert (sent.took_ms, sent.phases_ms, sent.reported_missed) == (
        12,
        (("connect", 5), ("answer", 7)),
        False,
    )


def test_a_test_goes_the_same_way_and_has_no_numbers() -> None:
    egress = ScriptedEgress([reply()])
    sent = send(HttpsSender(egress, PAGES, StillClock()), make_message(Target.HTTPS), secrets=[SECRET])
    ((_, body, headers),) = egress.posts
    assert json.loads(body)["alerts"][0]["type"] == "webhook-test"
    assert "outcry-seq" not in headers
    assert headers["webhook-signature"].startswith("v1,")
    assert sent.code == "ok"


def test_the_same_message_tried_later_has_its_id_and_body_but_another_time() -> None:
    clock, egress = StillClock(), ScriptedEgress([reply(500), reply()])
    sender, message = HttpsSender(egress, PAGES, clock), make_message(Target.HTTPS, [alert()])
    send(sender, message, secrets=[SECRET])
    clock.at_ns += 5 * S
    send(sender, message, secrets=[SECRET])
    (_, first, before), (_, second, after) = egress.posts
    assert first == second
    assert before["webhook-id"] == after["webhook-id"]
    assert int(after["webhook-timestamp"]) - int(before["webhook-timestamp"]) == 5
    assert before["webhook-signature"] != after["webhook-signature"]


#: Status, headers, outcome, code, and the requested pause in seconds.
ANSWERS = [
    (200, {}, Verdict.ARRIVED, "ok", None),
    (202, {"retry-after": "9"}, Verdict.ARRIVED, "ok", None),
    (299, {}, Verdict.ARRIVED, "ok", None),
    (300, {}, Verdict.LATER, "redirect", None),
    (301, {"location": "https://hooks.mysite.dev/other"}, Verdict.LATER, "redirect", None),
    (308, {"location": "http://127.0.0.1/"}, Verdict.LATER, "redirect", None),
    (400, {}, Verdict.LATER, "status", None),
    (401, {}, Verdict.LATER, "status", None),
    (404, {}, Verdict.LATER, "status", None),
    (410, {}, Verdict.GONE, "gone", None),
    (418, {"retry-after": "9"}, Verdict.LATER, "status", None),
    (429, {}, Verdict.SLOWER, "rate_limited", None),
    (429, {"Retry-After": "17"}, Verdict.SLOWER, "rate_limited", 17),
    (429, {"retry-after": in_http(40)}, Verdict.SLOWER, "rate_limited", 40),
    (429, {"retry-after": "999999"}, Verdict.SLOWER, "rate_limited", 86_400),
    (429, {"retry-after": in_http(9e6)}, Verdict.SLOWER, "rate_limited", 86_400),
    (429, {"retry-after": in_http(-60)}, Verdict.SLOWER, "rate_limited", 0),
    (429, {"retry-after": "soon"}, Verdict.SLOWER, "rate_limited", None),
    (500, {}, Verdict.LATER, "status", None),
    (502, {"retry-after": "3"}, Verdict.LATER, "status", 3),
    (503, {"retry-after": "120"}, Verdict.LATER, "status", 120),
    (503, {}, Verdict.LATER, "status", None),
    (504, {"retry-after": "1.5"}, Verdict.LATER, "status", 1.5),
    (200, {"webhook-delivery": "disable"}, Verdict.GONE, "gone", None),
    (500, {"Webhook-Delivery": "Disable"}, Verdict.GONE, "gone", None),
    (500, {"webhook-delivery": "abort-message"}, Verdict.REFUSED, "aborted", None),
    (429, {"webhook-delivery": "abort-message, other"}, Verdict.REFUSED, "aborted", None),
    (200, {"webhook-delivery": "abort-message"}, Verdict.ARRIVED, "ok", None),
    (410, {"webhook-delivery": "abort-message"}, Verdict.GONE, "gone", None),
    (500, {"webhook-delivery": "whatever"}, Verdict.LATER, "status", None),
]


@pytest.mark.parametrize(("status", "headers", "verdict", "code", "wait_s"), ANSWERS)
def test_meaning_of_each_response(
    status: int, headers: dict[str, str], verdict: Verdict, code: str, wait_s: float | None
) -> None:
    sent = answered(reply(status, headers=headers))
    assert (sent.verdict, sent.code, sent.status) == (verdict, code, status)
    if wait_s is None:
        assert sent.wait_ns is None
    else:  # a date has whole seconds
        assert sent.wait_ns == pytest.approx(wait_s * S, abs=S)


@pytest.mark.parametrize(
    "code",
    ["unresolvable", "blocked_address", "connect_refused", "connect_timeout", "tls_error", "connection_lost",
     "answer_timeout", "bad_response", "endpoint_private", "endpoint_port"],
)  # fmt: skip
def test_no_answer_is_a_failure_that_may_pass(code: str) -> None:
    sent = answered(reply(None, code=code))
    assert (sent.verdict, sent.code, sent.status, sent.wait_ns) == (Verdict.LATER, code, None, None)


def test_a_truncated_response_is_not_a_success() -> None:
    assert answered(reply(200, code="connection_lost")).verdict is Verdict.LATER


def test_waiting_for_a_slot_is_not_an_attempt() -> None:
    assert answered(reply(None, code="too_busy")).verdict is Verdict.BUSY


@given(st.text(max_size=60))
def test_any_retry_after_is_a_time_or_nothing(header_value: str) -> None:
    wait_ns = retry_after_ns({"retry-after": header_value}, NOW_NS)
    assert wait_ns is None or 0 <= wait_ns <= LONGEST_WAIT_NS == 24 * NANOS_PER_HOUR


@pytest.mark.parametrize(
    "header_value",
    [
        "", "-1", "+5", "1e9", "nan", "inf", "٣", "0x10", "1.", "Fri, 99 Jan 2026 00:00:00 GMT",
        "Fri, 02 Jan 99999 00:00:00 GMT", pytest.param("9" * 5000, id="many-digits"),
    ],
)  # fmt: skip
def test_an_odd_retry_after_raises_nothing(header_value: str) -> None:
    wait_ns = retry_after_ns({"retry-after": header_value}, NOW_NS)
    assert wait_ns == (LONGEST_WAIT_NS if header_value.startswith("99") else None)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"", ""),
        (b"  thanks\r\nbye\n", "thanks\nbye"),
        (b"\x1b[31mred\x00\x9b\xff", "\\x1b[31mred\\x00��"),
        ("a\u202egnp\u200bb\u2028c\x85".encode(), "a\\u202egnp\\u200bb\\u2028c"),
        ("\ud83d\udd14 Ä".encode("utf-8", "surrogatepass"), "\ufffd" * 6 + " Ä"),
        ("\U0001f514 Ä<script>".encode(), "\U0001f514 Ä<script>"),
        (b"Cannot POST /outcry/secret-path-0042", "Cannot POST …"),
        (
            b"no hook secret-path-0042, token=t0psecretvalue",
            "no hook …, …",
        ),
        (b"SECRET-PATH-0042 and T0pSecretValue", "… and …"),
        (b"it is " + b64encode(HOOK.encode()) + b"!", "it is …!"),
        (b"it is " + urlsafe_b64encode(b"secret-path-0042").rstrip(b"=") + b"!", "it is …!"),
        (b"signed with " + SECRET.encode(), "signed with …"),
        (b"signed with " + SECRET.removeprefix("whsec_").encode(), "signed with …"),
        (b"x" * 16_384, "x" * LONGEST_EXCERPT),
    ],
)
def test_the_excerpt_of_a_response(body: bytes, shown: str) -> None:
    assert answered(reply(500, body)).excerpt == shown


@given(st.binary(max_size=3000))
def test_an_excerpt_can_always_be_printed(body: bytes) -> None:
    shown = excerpt(body, HOOK)
    assert len(shown) <= LONGEST_EXCERPT
    assert shown.replace("\n", "").replace("\t", "").isprintable()


@given(
    st.binary(max_size=50),
    st.sampled_from(["secret-path-0042", "t0psecretvalue", "/outcry/secret-path-0042"]),
)
def test_an_excerpt_never_contains_secrets_of_the_url(around: bytes, secret: str) -> None:
    assert secret not in excerpt(around + secret.encode() + around, HOOK)


def test_the_client_does_not_retry() -> None:
    egress = ScriptedEgress([reply(500)])
    asyncio.run(
        HttpsSender(egress, PAGES, StillClock()).send(make_message(Target.HTTPS, [alert()]), HOOK, [SECRET])
    )
    assert len(egress.posts) == 1


async def over_a_socket(served: Certificate, answer: bytes) -> tuple[SendResult, bytes]:
    """Send a message to a real server with this response; return the result and what the server received."""
    received = bytearray()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        received.extend(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=served.server)
    here = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    egress = Egress(
        GuardedResolver(read_rule(private_hosts=here)), system_trust(), system_trust(str(served.path))
    )
    async with server:
        try:
            sender = HttpsSender(egress, PAGES, StillClock(time_ns()))
            message = make_message(Target.HTTPS, [alert(ref="Ä—■")])
            sent = await sender.send(message, f"https://{here}/in", [SECRET])
        finally:
            await egress.close()
    return sent, bytes(received)


@pytest.mark.parametrize(
    ("answer", "verdict", "code", "wait_s", "shown"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", Verdict.ARRIVED, "ok", None, ""),
        (b"HTTP/1.1 429 \r\nRetry-After: 7\r\ncontent-length: 2\r\n\r\nno", Verdict.SLOWER, "rate_limited", 7, "no"),
        (b"HTTP/1.1 500 x\r\nWEBHOOK-DELIVERY: disable\r\ncontent-length: 0\r\n\r\n", Verdict.GONE, "gone", None, ""),
        (b"HTTP/1.1 302 x\r\nlocation: /\r\ncontent-length: 0\r\n\r\n", Verdict.LATER, "redirect", None, ""),
        (b"SSH-2.0-OpenSSH\r\n", Verdict.LATER, "bad_response", None, ""),
    ],
    ids=["taken", "slower", "disable", "redirect", "no-http"],
)  # fmt: skip
def test_over_a_real_socket(
    answer: bytes, verdict: Verdict, code: str, wait_s: int | None, shown: str, tmp_path: Path
) -> None:
    sent, received = asyncio.run(over_a_socket(certificate(tmp_path), answer))
    assert (sent.verdict, sent.code, sent.excerpt) == (verdict, code, shown)
    assert sent.wait_ns == (None if wait_s is None else wait_s * S)
    head, _, body = received.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert Webhook(SECRET).verify(body, headers)["alerts"][0]["ref"] == "Ä—■"
    assert {name.lower() for name in headers} >= {"outcry-seq", "webhook-id", "content-type", "user-agent"}
    assert not any(name.lower() in {"cookie", "authorization"} for name in headers)
