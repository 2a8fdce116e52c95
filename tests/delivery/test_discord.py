"""Discord: valid messages without mentions, the meaning of each response, and when sending must pause."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.delivery.messages import (
    DISCORD,
    HOOK,
    PAGES,
    ScriptedEgress,
    StillClock,
    alert,
    make_message,
    many,
    reply,
    send,
)

from outcry.delivery.discord import COLOURS, DiscordSender, Restraint
from outcry.delivery.egress import Reply
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Message
from outcry.delivery.replies import LONGEST_EXCERPT
from outcry.delivery.sender import SendResult, Verdict
from outcry.market.alerts.machine import AlertType
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

URL = f"{PAGES}/alerts"
S = NANOS_PER_SECOND
OK = reply(200, b'{"id": "1"}')


def tried(message: Message, *replies: Reply) -> tuple[SendResult, list[dict[str, Any]]]:
    """Return the result of sending and the posted messages."""
    egress = ScriptedEgress(replies or [OK])
    sent = send(DiscordSender(egress, PAGES, StillClock()), message)
    assert {address for address, _, _ in egress.posts} == {f"{DISCORD}?wait=true"}
    return sent, [json.loads(body) for _, body, _ in egress.posts]


def posted(message: Message) -> dict[str, Any]:
    """Return the single posted message."""
    sent, (body,) = tried(message)
    assert (sent.verdict, sent.code) == (Verdict.ARRIVED, "ok")
    return body


def test_one_alert() -> None:
    assert posted(make_message(Target.DISCORD, [alert()])) == {
        "content": "■ CRITICAL · ES Breakout above initial balance (ib-break-up)",
        "allowed_mentions": {"parse": []},
        "embeds": [
            {
                "title": "■ CRITICAL · ES Breakout above initial balance (ib-break-up)",
                "description": "ES traded at 6912.5, above the initial balance (IBH 6912.25). · 16:04:00 CET",
                "url": URL,
                "color": COLOURS["critical"],
                "footer": {"text": "Educational context, not advice."},
            }
        ],
    }


def test_severity_is_shape_and_word_and_colour() -> None:
    rows = [
        alert(),
        alert(AlertType.NAKED_POC, "NQ", ref="2025-12-30"),
        alert(AlertType.VA_TEST_LOW, ref="VAL"),
    ]
    body = posted(make_message(Target.DISCORD, rows))
    assert body["content"] == "3 alerts: ES ib-break-up, NQ naked-poc, ES va-test-low."
    assert [(embed["title"], embed["color"]) for embed in body["embeds"]] == [
        ("■ CRITICAL · ES Breakout above initial balance (ib-break-up)", COLOURS["critical"]),
        ("▲ WARN · NQ Naked POC touched (naked-poc)", COLOURS["warn"]),
        ("● INFO · ES VAL tested (va-test-low)", COLOURS["info"]),
    ]
    assert len(set(COLOURS.values())) == 3


def test_a_test_message_looks_different_from_an_alert() -> None:
    (embed,) = posted(make_message(Target.DISCORD))["embeds"]
    assert embed["title"] == "● INFO · Webhook test"
    assert "not a market signal" in embed["description"]


def test_of_many_the_newest_are_shown_and_the_rest_counted() -> None:
    body = posted(make_message(Target.DISCORD, [alert(symbol=f"S{place}") for place in range(200)]))
    assert [embed["title"].split()[3] for embed in body["embeds"]] == [
        f"S{place}" for place in range(190, 200)
    ]
    assert body["content"].split("\n")[1] == f"and 190 more: <{URL}>"


def test_missed_alerts_are_one_line_and_count_as_reported() -> None:
    sent, (body,) = tried(make_message(Target.DISCORD, [alert()], missed=37))
    assert sent.reported_missed
    assert body["content"].split("\n")[1].startswith("37 earlier alerts could not be delivered")
    assert not tried(make_message(Target.DISCORD, [alert()], missed=37), reply(500))[0].reported_missed
    assert not tried(make_message(Target.DISCORD, [alert()]))[0].reported_missed


HOSTILE = "@everyone <@1> **b** __u__ ~~s~~ `c` ```x``` ||p|| [click](https://evil.example) # h\n> q \u202egnp\x00 \\"


def test_data_cannot_mention_users_or_format_text() -> None:
    body = posted(make_message(Target.DISCORD, [alert(AlertType.NAKED_POC, ref=HOSTILE)]))
    text = body["embeds"][0]["description"]
    assert "\n" not in text
    assert "\u202e" not in text
    assert "\x00" not in text
    for sign in "*_~`|<>[]@#\\":  # each one follows an escape of its own
        assert (
            text.replace("\\\\", "").count(sign) == text.replace("\\\\", "").count("\\" + sign)
            or sign == "\\"
        )
    assert r"\@everyone \<\@1\> \*\*b\*\*" in text
    assert r"https:\//evil.example" in text
    assert body["allowed_mentions"] == {"parse": []}


@pytest.mark.parametrize(
    ("symbol", "begins"), [("- x", r"\- x"), ("# x", r"\# x"), ("> x", r"\> x"), ("+ x", r"\+ x")]
)
def test_data_cannot_start_a_list_heading_or_quotation(symbol: str, begins: str) -> None:
    body = posted(make_message(Target.DISCORD, [alert(symbol=symbol)]))
    assert body["embeds"][0]["description"].startswith(begins)


rows = st.builds(
    alert, st.sampled_from(AlertType), st.text(min_size=1, max_size=2000), ref=st.text(max_size=4000)
)


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(st.lists(rows, max_size=60), st.integers(0, 10**6))
def test_no_message_exceeds_discords_limits(alerts: list[Any], missed: int) -> None:
    body = posted(make_message(Target.DISCORD, alerts, missed=missed))
    assert set(body) == {"content", "embeds", "allowed_mentions"}
    assert 0 < units(body["content"]) <= 2000
    assert 0 < len(body["embeds"]) <= 10
    for embed in body["embeds"]:
        assert 0 < units(embed["title"]) <= 256
        assert 0 < units(embed["description"]) <= 4096
    footers = [embed.get("footer", {}).get("text", "") for embed in body["embeds"]]
    in_all = [part for embed in body["embeds"] for part in (embed["title"], embed["description"])]
    assert sum(map(units, [*in_all, *footers])) <= 6000
    assert footers[-1]
    _, (_, text) = tried(
        make_message(Target.DISCORD, alerts, missed=missed), reply(400, b'{"code": 50035}'), OK
    )
    assert set(text) == {"content", "allowed_mentions"}
    assert 0 < units(text["content"]) <= 2000


ANSWERS = [
    (204, b"", Verdict.ARRIVED, "ok"),
    (404, b'{"message": "Unknown Webhook", "code": 10015}', Verdict.GONE, "gone"),
    (401, b'{"message": "Invalid Webhook Token", "code": 50027}', Verdict.GONE, "gone"),
    (410, b"", Verdict.GONE, "gone"),
    (404, b'{"code": 10003}', Verdict.LATER, "status"),
    (401, b'{"code": 10015}', Verdict.LATER, "status"),
    (403, b'{"code": 40333}', Verdict.LATER, "status"),
    (404, b"<html>404</html>", Verdict.LATER, "status"),
    (404, b'{"code": "10015"}', Verdict.LATER, "status"),
    (400, b'{"code": 220001}', Verdict.LATER, "status"),
    (500, b'{"code": 10015}', Verdict.LATER, "status"),
    (302, b"", Verdict.LATER, "redirect"),
]


@pytest.mark.parametrize(("status", "body", "verdict", "code"), ANSWERS)
def test_meaning_of_each_response(status: int, body: bytes, verdict: Verdict, code: str) -> None:
    sent, messages = tried(make_message(Target.DISCORD, [alert()]), reply(status, body))
    assert (sent.verdict, sent.code, sent.status) == (verdict, code, status)
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("body", "headers", "wait_s"),
    [
        (b'{"retry_after": 0.65, "global": false}', {"retry-after": "1"}, 0.65),
        (b'{"retry_after": 64}', {}, 64),
        (b"", {"retry-after": "7"}, 7),
        (b'{"retry_after": null}', {"retry-after": "7"}, 7),
        (b'{"retry_after": "soon"}', {"retry-after": "7"}, 7),
        (b'{"retry_after": NaN}', {"retry-after": "7"}, 7),
        (b'{"retry_after": -5}', {}, 0),
        (b'{"retry_after": 1e300}', {}, 86_400),
        (b"\xff\xfe", {}, None),
        (b"", {}, None),
    ],
)
def test_it_waits_as_long_as_discord_asks(body: bytes, headers: dict[str, str], wait_s: float | None) -> None:
    sent, _ = tried(make_message(Target.DISCORD, [alert()]), reply(429, body, headers=headers))
    assert (sent.verdict, sent.code) == (Verdict.SLOWER, "rate_limited")
    assert sent.wait_ns == (None if wait_s is None else round(wait_s * S))


def test_it_pauses_before_a_limit_is_reached() -> None:
    spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": "1.470"}
    left = spent | {"X-RateLimit-Remaining": "1"}
    assert tried(make_message(Target.DISCORD, [alert()]), reply(headers=spent))[0].wait_ns == round(1.47 * S)
    assert tried(make_message(Target.DISCORD, [alert()]), reply(headers=left))[0].wait_ns is None


def test_a_message_that_discord_rejects_is_sent_again_as_text() -> None:
    message = make_message(Target.DISCORD, many(3), missed=2)
    sent, (first, second) = tried(message, reply(400, b'{"code": 50035}'), reply(204))
    assert "embeds" in first
    assert second["content"].count("ES traded at 6912.5") == 3
    assert "2 earlier alerts could not be delivered" in second["content"]
    assert second["allowed_mentions"] == {"parse": []}
    assert (sent.verdict, sent.code, sent.reported_missed) == (Verdict.ARRIVED, "ok", True)


def test_the_excerpt_of_two_responses_has_the_length_of_one() -> None:
    long = b'{"code": 50035, "message": "' + b"x" * 5000 + b'"}'
    sent, _ = tried(make_message(Target.DISCORD, many(3)), reply(400, long), reply(400, long))
    assert len(sent.excerpt) == LONGEST_EXCERPT
    assert "(then, as plain text:)" in sent.excerpt


def test_a_message_that_discord_rejects_as_text_too_fails() -> None:
    sent, messages = tried(make_message(Target.DISCORD, many(3), missed=2), reply(400, b'{"code": 50035}'))
    assert (sent.verdict, sent.code, sent.reported_missed) == (Verdict.REFUSED, "our_message", False)
    assert len(messages) == 2


@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_nothing_is_sent_once_too_many_answers_were_invalid(status: int) -> None:
    clock, egress = StillClock(), ScriptedEgress([reply(status)])
    sender = DiscordSender(egress, PAGES, clock, Restraint(most_invalid=3))
    for _ in range(3):
        clock.at_ns += NANOS_PER_MINUTE
        assert send(sender, make_message(Target.DISCORD, [alert()])).status == status
    pending = send(sender, make_message(Target.DISCORD, [alert()]))
    assert (pending.verdict, pending.code, pending.status) == (Verdict.BUSY, "too_busy", None)
    assert pending.wait_ns == 8 * NANOS_PER_MINUTE  # the first was two minutes ago
    assert len(egress.posts) == 3
    clock.at_ns += 8 * NANOS_PER_MINUTE
    assert send(sender, make_message(Target.DISCORD, [alert()])).status == status


def test_responses_that_discord_does_not_count_are_not_counted() -> None:
    shared = reply(429, headers={"X-RateLimit-Scope": "shared"})
    egress = ScriptedEgress([shared, reply(400), reply(500), reply(None, code="connect_timeout"), OK])
    sender = DiscordSender(egress, PAGES, StillClock(), Restraint(most_invalid=1))
    for _ in range(5):
        assert send(sender, make_message(Target.DISCORD, [alert()])).verdict is not Verdict.BUSY


def test_a_limit_of_the_whole_machine_holds_every_webhook() -> None:
    clock = StillClock()
    everywhere = reply(429, b'{"retry_after": 3.5, "global": true}', headers={"X-RateLimit-Global": "true"})
    sender = DiscordSender(ScriptedEgress([everywhere, OK]), PAGES, clock)
    assert send(sender, make_message(Target.DISCORD, [alert()])).wait_ns == round(3.5 * S)
    other = DISCORD.replace("1234", "9876")
    assert send(sender, make_message(Target.DISCORD, [alert()]), other).verdict is Verdict.BUSY
    clock.at_ns += 4 * S
    assert send(sender, make_message(Target.DISCORD, [alert()]), other).verdict is Verdict.ARRIVED


@pytest.mark.parametrize(
    "address",
    [HOOK, DISCORD.replace("discord.com", "discord.com.evil.example"), DISCORD + "?wait=false", DISCORD + "/slack",
     DISCORD.replace("https", "http"), DISCORD.replace("/webhooks", "/channels")],
)  # fmt: skip
def test_nothing_is_sent_but_to_discord(address: str) -> None:
    egress = ScriptedEgress([OK])
    sent = send(DiscordSender(egress, PAGES, StillClock()), make_message(Target.DISCORD, [alert()]), address)
    assert egress.posts == []
    assert (sent.verdict, sent.code) == (Verdict.GONE, "endpoint_invalid")


def test_the_url_is_not_stored_in_results() -> None:
    sent, _ = tried(make_message(Target.DISCORD, [alert()]), reply(404, f"no {DISCORD}?wait=true".encode()))
    assert "aB_-aB_-" not in repr(sent)
    assert "12345678901234567" not in repr(sent)
