"""Every code of a delivery, a test or a URL has a text, and received text is shown with all its characters."""

import pytest

from outcry.web.account.delivery_times import timed
from outcry.web.account.delivery_words import (
    ADDRESS_CODES,
    RESULT_CODES,
    address_words,
    result_words,
)
from outcry.web.as_text import as_seen
from outcry.web.language import LANGUAGES, Languages

#: What the guard says of an address, and what senders, the dispatcher and tests say of a delivery.
REFUSED = (
    "endpoint_invalid", "endpoint_not_https", "endpoint_userinfo", "endpoint_port", "endpoint_private", "endpoint_self",
)  # fmt: skip
CODES = (
    *REFUSED, "endpoint_unresolvable", "ok", "connect_refused", "connect_timeout", "tls_error", "connection_lost",
    "answer_timeout", "bad_response", "redirect", "status", "gone", "rate_limited", "aborted", "our_message",
    "too_busy", "address_lost", "failing", "expired", "unresolvable", "blocked_address", "mail_refused", "mail_failed",
    "mail_not_set_up", "bounced", "unsubscribed", "unconfirmed", "store_busy", "our_fault",
)  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_code_has_words(language: str) -> None:
    words = Languages.words(language)
    for code in CODES:
        assert result_words(words, code) != words("Delivery failed (%(code)s).", code=code)
    for code in REFUSED:
        assert address_words(words, code) != words(
            "This URL or email address was rejected (%(code)s).", code=code
        )
    assert "brand_new" in result_words(words, "brand_new")


def test_no_two_codes_say_the_same() -> None:
    words = Languages.words("en")
    texts = {result_words(words, code) for code in CODES}
    assert len(texts) == len(CODES)


def test_the_codes_of_the_table_are_all_known_here() -> None:
    """A code that is added has to be thought of in this test's list too, or it is one nobody says."""
    known = {
        *CODES,
        "slack_trigger",
        "not_slack",
        "not_discord",
        "address_of_a_chat",
        "email_form",
        "address_missing",
    }
    assert known >= RESULT_CODES | ADDRESS_CODES


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain", "plain"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),  # the template's business
        ("two\nlines\r\nand\ttabs", "two\nlines\nand\ttabs"),
        ("\x1b[31mred\x1b[0m", "␛[31mred␛[0m"),
        ("a\x00b", "a␀b"),
        ("gnp.\u202eexe", "gnp.‹U+202E›exe"),
        ("a\u2066b\u2069", "a‹U+2066›b‹U+2069›"),
        ("zero\u200bwidth", "zero‹U+200B›width"),
        ("line\u2028sep", "line‹U+2028›sep"),
        ("\x7f\x9b", "‹U+007F›‹U+009B›"),
        ("Grüße 日本 \U0001f600 \ufffd", "Grüße 日本 \U0001f600 \ufffd"),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    ],
)
def test_what_cannot_be_seen_is_shown(text: str, seen: str) -> None:
    assert as_seen(text) == seen


def test_the_parts_of_a_time_lie_one_after_the_other() -> None:
    """Of 50 ms: 5 are a tenth from the beginning, 20 two fifths from there on."""
    parts = timed(Languages.words("en"), (("dns", 5), ("tls", 20), ("sending", 0)), 50)
    assert [(part.begins, part.lasts) for part in parts] == [(0, 10), (10, 40), (50, 0)]
    assert [part.words for part in parts] == ["DNS lookup", "TLS handshake", "sending"]
    assert timed(Languages.words("en"), (), None) == []
