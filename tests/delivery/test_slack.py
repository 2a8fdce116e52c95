"""Slack: valid messages without mentions, and the meaning of each response."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.delivery.messages import (
    HOOK,
    PAGES,
    SLACK,
    ScriptedEgress,
    StillClock,
    alert,
    make_message,
    many,
    reply,
    send,
)

from outcry.delivery.egress import Reply
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Message, Reader
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.slack import GONE, MALFORMED, SlackSender
from outcry.market.alerts.machine import AlertType
from outcry.market.units import NANOS_PER_SECOND

URL = f"{PAGES}/alerts"
OK = reply(200, b"ok")


def tried(message: Message, *replies: Reply) -> tuple[SendResult, list[dict[str, Any]]]:
    """Return the result of sending and the posted messages."""
    egress = ScriptedEgress(replies or [OK])
    sent = send(SlackSender(egress, PAGES, StillClock()), message)
    assert {(address, *headers.items()) for address, _, headers in egress.posts} == {
        (SLACK, ("content-type", "application/json"))
    }
    return sent, [json.loads(body) for _, body, _ in egress.posts]


def posted(message: Message) -> dict[str, Any]:
    """Return the single posted message."""
    sent, (body,) = tried(message)
    assert (sent.verdict, sent.code) == (Verdict.ARRIVED, "ok")
    return body


def texts(body: dict[str, Any]) -> list[str]:
    """Return each text of the blocks."""
    return [
        text["text"] for block in body["blocks"] for text in [block.get("text"), *block.get("elements", [])] if text
    ]  # fmt: skip


def test_one_alert() -> None:
    body = posted(make_message(Target.SLACK, [alert()]))
    text = "ES traded at 6912.5, above the initial balance (IBH 6912.25). · 16:04:00 CET"
    assert [block["type"] for block in body["blocks"]] == ["header", "section", "context"]
    assert texts(body) == [
        "■ CRITICAL · ES Breakout above initial balance (ib-break-up)",
        text,
        f"Educational context, not advice. <{URL}|All alerts>",
    ]
    assert (
        body["text"]
        == f"■ CRITICAL · ES Breakout above initial balance (ib-break-up): {text}\nEducational context, not advice."
    )


def test_several_alerts_have_each_their_severity_as_word_and_shape() -> None:
    rows = [
        alert(),
        alert(AlertType.NAKED_POC, "NQ", ref="2025-12-30"),
        alert(AlertType.VA_TEST_LOW, ref="VAL"),
    ]
    header, *sections, _ = texts(posted(make_message(Target.SLACK, rows)))
    assert header == "3 alerts: ES ib-break-up, NQ naked-poc, ES va-test-low."
    assert [text.split("\n")[0] for text in sections] == [
        "*■ CRITICAL · ES Breakout above initial balance (ib-break-up)*",
        "*▲ WARN · NQ Naked POC touched (naked-poc)*",
        "*● INFO · ES VAL tested (va-test-low)*",
    ]


def test_alert_times_are_in_the_readers_time_zone() -> None:
    """03:04:05 UTC is 22:04:05 of the day before in New York."""
    in_new_york = Reader("ann@example.com", "en", "America/New_York", 7)
    late = replace(make_message(Target.SLACK, [alert(at_ms=1_767_323_045_000), alert()]), reader=in_new_york)
    first, second = [text for text in texts(posted(late)) if "\n" in text]
    assert first.endswith(" · 2026-01-01 22:04:05 EST")
    assert second.endswith(". · 10:04:00 EST")
    assert "EST" not in "".join(texts(posted(replace(make_message(Target.SLACK), reader=in_new_york))))


def test_a_test_message_looks_different_from_an_alert() -> None:
    body = posted(make_message(Target.SLACK))
    assert texts(body)[0] == "● INFO · Webhook test"
    assert "not a market signal" in texts(body)[1]


def test_of_many_the_newest_are_shown_and_the_rest_counted() -> None:
    rows = [alert(symbol=f"S{place}") for place in range(200)]
    body = posted(make_message(Target.SLACK, rows))
    sections = [text for text in texts(body) if "\n" in text]
    assert [text.split()[3] for text in sections] == [f"S{place}" for place in range(190, 200)]
    assert f"and 190 more: <{URL}|All alerts>" in texts(body)
    assert f"and 190 more: {URL}" in body["text"].split("\n")


@pytest.mark.parametrize(("missed", "words"), [(1, "1 earlier alert could"), (37, "37 earlier alerts could")])
def test_missed_alerts_are_one_line_and_count_as_reported(missed: int, words: str) -> None:
    sent, (body,) = tried(make_message(Target.SLACK, [alert()], missed=missed))
    assert sent.reported_missed
    assert [words in text for text in texts(body)].count(True) == 1
    assert words in body["text"]
    assert not tried(make_message(Target.SLACK, [alert()], missed=missed), reply(500))[0].reported_missed
    assert not tried(make_message(Target.SLACK, [alert()]))[0].reported_missed


HOSTILE = "<!channel> <@U1> @here *b* _i_ ~s~ `c` ```x``` <https://evil.example|click> &amp; \u202eegnahc\n> quote\x00"


def test_data_cannot_mention_users_or_break_lines() -> None:
    body = posted(make_message(Target.SLACK, [alert(AlertType.NAKED_POC, ref=HOSTILE), alert()]))
    for text in [*texts(body), body["text"]]:
        ours = text.replace(f"<{URL}|All alerts>", "")
        assert "<" not in ours
        assert ">" not in ours
        assert not set("_~`\u202e\x00") & set(ours)
        assert ours.count("*") in {0, 2}  # the title is our own text
    section = texts(body)[1]
    assert "&lt;!channel&gt; &lt;@U1&gt;" in section
    assert "&amp;amp;" in section
    assert section.count("\n") == 1
    # Slack does not interpret `@here` in verbatim text
    marked = [
        part for block in body["blocks"] for part in [block.get("text"), *block.get("elements", [])] if part
    ]
    assert all(part["type"] == "plain_text" or part["verbatim"] is True for part in marked)


rows = st.builds(
    alert, st.sampled_from(AlertType), st.text(min_size=1, max_size=2000), ref=st.text(max_size=4000)
)


@given(st.lists(rows, max_size=60), st.integers(0, 10**6))
def test_no_message_exceeds_slacks_limits(alerts: list[Any], missed: int) -> None:
    body = posted(make_message(Target.SLACK, alerts, missed=missed))
    assert set(body) == {"text", "blocks", "unfurl_links"}
    assert len(body["blocks"]) <= 50
    assert len(body["text"]) <= 4000
    for block in body["blocks"]:
        limit = {"header": 150, "section": 3000}.get(block["type"], 2000)
        for text in [block.get("text"), *block.get("elements", [])]:
            assert text is None or 0 < len(text["text"].encode("utf-16-le")) / 2 <= limit


ANSWERS = [
    *(
        (status, word.encode(), Verdict.GONE, "gone")
        for word in sorted(GONE)
        for status in (400, 403, 404, 410)
    ),
    (410, b"", Verdict.GONE, "gone"),
    (404, b"<html>no such page no_service</html>", Verdict.LATER, "status"),
    (403, b"", Verdict.LATER, "status"),
    (400, b"something_new", Verdict.LATER, "status"),
    (429, b"rate_limited", Verdict.SLOWER, "rate_limited"),
    (500, b"no_service", Verdict.LATER, "status"),
    (500, b"rollup_error", Verdict.LATER, "status"),
    (302, b"", Verdict.LATER, "redirect"),
]


@pytest.mark.parametrize(("status", "body", "verdict", "code"), ANSWERS)
def test_meaning_of_each_response(status: int, body: bytes, verdict: Verdict, code: str) -> None:
    sent, messages = tried(make_message(Target.SLACK, [alert()]), reply(status, body))
    assert (sent.verdict, sent.code, sent.status) == (verdict, code, status)
    assert len(messages) == 1


def test_it_waits_as_long_as_slack_asks() -> None:
    sent, _ = tried(make_message(Target.SLACK, [alert()]), reply(429, b"", headers={"Retry-After": "30"}))
    assert sent.wait_ns == 30 * NANOS_PER_SECOND


@pytest.mark.parametrize("word", sorted(MALFORMED))
def test_a_message_that_slack_rejects_is_sent_again_as_text(word: str) -> None:
    sent, (first, second) = tried(
        make_message(Target.SLACK, many(3), missed=2), reply(400, word.encode()), OK
    )
    assert "blocks" in first
    assert set(second) == {"text", "unfurl_links"}
    assert first["text"] == second["text"]
    assert (sent.verdict, sent.code, sent.reported_missed, sent.took_ms) == (Verdict.ARRIVED, "ok", True, 24)
    assert sent.excerpt == f"{word} (then, as plain text:) ok"
    assert json.loads(sent.request) == second


def test_a_message_that_slack_rejects_as_text_too_fails() -> None:
    sent, messages = tried(make_message(Target.SLACK, many(3), missed=2), reply(400, b"invalid_payload"))
    assert (sent.verdict, sent.code, sent.reported_missed) == (Verdict.REFUSED, "our_message", False)
    assert len(messages) == 2


def test_the_second_message_may_fail_for_a_reason_of_its_own() -> None:
    later, _ = tried(
        make_message(Target.SLACK, many(3)),
        reply(400, b"invalid_blocks"),
        reply(None, code="connect_timeout"),
    )
    result, _ = tried(
        make_message(Target.SLACK, many(3)), reply(400, b"invalid_blocks"), reply(404, b"no_service")
    )
    assert (later.verdict, later.code) == (Verdict.LATER, "connect_timeout")
    assert (result.verdict, result.code) == (Verdict.GONE, "gone")


def test_after_a_slow_answer_the_text_waits_for_the_next_try() -> None:
    sent, messages = tried(
        make_message(Target.SLACK, many(3)), reply(400, b"invalid_blocks", took_ms=14_000), OK
    )
    assert len(messages) == 1
    assert sent.verdict is Verdict.LATER


@pytest.mark.parametrize(
    "address",
    [HOOK, SLACK.replace("hooks.slack.com", "hooks.slack.com.evil.example"), SLACK + "?x=1", SLACK + "\n",
     SLACK.replace("https", "http"), SLACK.replace("/services", "/triggers"), SLACK + "@evil.example"],
)  # fmt: skip
def test_nothing_is_sent_but_to_slack(address: str) -> None:
    egress = ScriptedEgress([OK])
    sent = send(SlackSender(egress, PAGES, StillClock()), make_message(Target.SLACK, [alert()]), address)
    assert egress.posts == []
    assert (sent.verdict, sent.code) == (Verdict.GONE, "endpoint_invalid")


def test_the_url_is_not_stored_in_results() -> None:
    echo = f"<p>Cannot POST {SLACK.removeprefix('https://hooks.slack.com')}</p> abcdefgh12345678".encode()
    sent, _ = tried(make_message(Target.SLACK, [alert()]), reply(404, echo))
    assert "abcdefgh12345678" not in repr(sent)
    assert "T0AB12CD3" not in repr(sent)


def test_waiting_for_a_slot_is_not_an_attempt() -> None:
    sent, _ = tried(make_message(Target.SLACK, [alert()]), reply(None, code="too_busy"))
    assert sent.verdict is Verdict.BUSY
