"""Notices to the owner of a failing webhook: an entry in the account's audit log, and an email."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.events import tell_into
from tests.delivery.delivery_harness import BEGIN_NS, Harness, open_harness

from outcry.database.errors import StoreBusy
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox_model import Message
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.smtp import Mail, MailFailed
from outcry.people.store import SqlIdentityStore

SHOWN = "hooks.mysite.dev/…0042"
URL = "https://outcry.example.com"


class Post:
    """A mailer that stores emails, or fails as `problem` specifies."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.problem: MailFailed | None = None

    def send(self, mail: Mail) -> None:
        if self.problem is not None:
            raise self.problem
        self.mails.append(mail)


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with open_harness(tmp_path) as made:
        yield made


@pytest.fixture
def log_lines() -> list[str]:
    return []


def notices(harness: Harness, log_lines: list[str], post: Post | None) -> OwnerNotices:
    return OwnerNotices(
        SqlIdentityStore(harness.database), post, harness.clock, f"{URL}/", tell_into(log_lines)
    )


def claimed(harness: Harness, language: str = "en") -> Message:
    """Return a message to a user with this language."""
    harness.subscribe(harness.person())
    harness.fire()
    (message,) = harness.outbox.claim("w", harness.clock.ns, 60 * NANOS_PER_SECOND, 10, 10)
    return replace(message, reader=replace(message.reader, language=language))


def test_a_notice_is_in_the_audit_log_without_the_url(harness: Harness, log_lines: list[str]) -> None:
    message = claimed(harness)
    owner_notices = notices(harness, log_lines, None)
    owner_notices.warned(message, 24)
    owner_notices.switched_off(message, "failing")
    rows = SqlIdentityStore(harness.database).audit(message.subscription.user_id, None, 10)
    known = {"label": "Desk", "target": "https", "shown": SHOWN}
    assert [(row.event, row.details, row.at_ns) for row in reversed(rows)] == [
        ("subscription_failing", {**known, "hours": "24"}, BEGIN_NS),
        ("subscription_off", {**known, "code": "failing"}, BEGIN_NS),
    ]
    assert log_lines == []


@pytest.mark.parametrize(
    ("language", "warning", "end", "why"),
    [
        ("en", "24 hours", "disabled", "no delivery has succeeded for five days"),
        ("de", "24 Stunden", "deaktiviert", "seit fünf Tagen war keine Zustellung erfolgreich"),
    ],
)
def test_a_notice_is_emailed_in_the_language_of_the_account(
    harness: Harness, log_lines: list[str], language: str, warning: str, end: str, why: str
) -> None:
    message, post = claimed(harness, language), Post()
    owner_notices = notices(harness, log_lines, post)
    owner_notices.warned(message, 24)
    owner_notices.switched_off(message, "failing")
    first, last = post.mails
    assert {mail.to for mail in post.mails} == {"ann@example.com"}
    assert warning in first.subject
    assert end in last.subject + last.text
    assert why in last.text
    for mail in post.mails:
        assert SHOWN in mail.text
        assert f"{URL}/account/webhooks/{message.subscription.id}" in mail.text
        assert "https://hooks.mysite.dev/0042" not in mail.text


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_reason_has_words_of_its_own(harness: Harness, log_lines: list[str], language: str) -> None:
    message, post = claimed(harness, language), Post()
    reasons = ("gone", "failing", "bounced", "address_lost", "something new")
    for reason in reasons:
        notices(harness, log_lines, post).switched_off(message, reason)
    assert len({mail.text for mail in post.mails}) == len(reasons)


def test_a_failed_notice_email_is_reported_to_the_operator(harness: Harness, log_lines: list[str]) -> None:
    message, post = claimed(harness), Post()
    post.problem = MailFailed("the server is away")
    notices(harness, log_lines, post).switched_off(message, "gone")
    assert len(SqlIdentityStore(harness.database).audit(message.subscription.user_id, None, 10)) == 1
    assert log_lines == ["email_failed kind=webhook_off problem=the server is away"]


def test_a_notice_is_emailed_even_if_the_store_is_busy(
    harness: Harness, log_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    message, post = claimed(harness), Post()

    def busy(*_: object) -> None:
        raise StoreBusy("database is locked")

    monkeypatch.setattr(SqlIdentityStore, "note", busy)
    notices(harness, log_lines, post).warned(message, 72)
    assert len(post.mails) == 1
    assert log_lines == ["owner_notice_failed problem=database is locked"]
