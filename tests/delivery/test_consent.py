"""Consent to email: which links are valid, and how often a recipient is asked."""

import base64
import string
from dataclasses import replace

import pytest
from support.events import tell_into
from tests.delivery.mailed import SUBSCRIPTION
from tests.people.memory_store import HandClock

from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.delivery.consent_links import ConsentLinks, Purpose
from outcry.delivery.mail_consent import HOURLY, WEEKLY, MailConsent
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.subscription_phases import Sign, moved_on
from outcry.delivery.subscriptions import NoSubscription
from outcry.people.messages import TEXTS
from outcry.people.smtp import Mail, MailFailed

SITE = "https://outcry.example.com"
URL_SAFE = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
ROW = replace(SUBSCRIPTION, phase=SubscriptionPhase.UNCONFIRMED)


class MemorySubscriptions:
    """The part of subscriptions in memory that consent uses."""

    def __init__(self, *rows: SubscriptionRow) -> None:
        self.rows = {(row.user_id, row.id): row for row in rows}

    def one(self, user_id: int, subscription_id: int) -> SubscriptionRow:
        if (user_id, subscription_id) not in self.rows:
            raise NoSubscription
        return self.rows[user_id, subscription_id]

    def confirm(self, user_id: int, subscription_id: int) -> bool:
        return self._move(user_id, subscription_id, Sign.CONFIRMED, "")

    def unsubscribe(self, user_id: int, subscription_id: int) -> bool:
        return self._move(user_id, subscription_id, Sign.UNSUBSCRIBED, "unsubscribed")

    def _move(self, user_id: int, subscription_id: int, sign: Sign, reason: str) -> bool:
        before = self.one(user_id, subscription_id)
        if sign is Sign.UNSUBSCRIBED:  # sealing anew changes it
            before = replace(before, sealed_address=before.sealed_address + b"+")
        after = self.rows[user_id, subscription_id] = moved_on(before, sign, reason)
        return before.phase is not after.phase


class Post:
    """Store emails instead of sending them, or fail."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.broken = False

    def send(self, mail: Mail) -> None:
        if self.broken:
            raise MailFailed("mail.example.com:587 answered 451")
        self.mails.append(mail)


def limiters(clock: HandClock) -> tuple[SlidingWindowLimiter, SlidingWindowLimiter]:
    """Return the limiters of confirmation emails per hour and per week."""
    return SlidingWindowLimiter(lambda: clock.now_ns() // HOURLY), SlidingWindowLimiter(
        lambda: clock.now_ns() // WEEKLY
    )


class Harness:
    """Consent with its collaborators and a clock that tests move."""

    def __init__(self, *rows: SubscriptionRow) -> None:
        self.subscriptions, self.post, self.clock, self.log_lines = (
            MemorySubscriptions(*rows),
            Post(),
            HandClock(),
            list[str](),
        )
        self.links = ConsentLinks(b"a key of the tests", SITE, self.clock)
        self.consent = MailConsent(self.subscriptions, self.links, self.post, *limiters(self.clock))  # type: ignore[arg-type]
        self.consent.report_to(tell_into(self.log_lines))

    def token(self, purpose: Purpose, row: SubscriptionRow = ROW) -> str:
        link = self.links.confirm(row) if purpose == "confirm" else self.links.unsubscribe(row)
        return link.partition("token=")[2]

    def row(self) -> SubscriptionRow:
        return self.subscriptions.one(ROW.user_id, ROW.id)


def test_a_reader_can_confirm_once_or_repeatedly() -> None:
    harness = Harness(ROW)
    token = harness.token("confirm")
    for _ in range(2):
        assert harness.consent.confirm(token) is not None
        assert harness.row().phase is SubscriptionPhase.ACTIVE


def test_a_reader_can_unsubscribe_at_any_time_once_or_repeatedly() -> None:
    harness = Harness(replace(ROW, phase=SubscriptionPhase.ACTIVE))
    token = harness.token("unsubscribe")
    harness.clock.pass_s(5 * 365 * 24 * 3600)
    for _ in range(2):
        assert harness.consent.unsubscribe(token) is not None
        assert (harness.row().phase, harness.row().reason) == (SubscriptionPhase.UNCONFIRMED, "unsubscribed")


def test_a_confirmation_link_expires_after_a_week() -> None:
    harness = Harness(ROW)
    token = harness.token("confirm")
    harness.clock.pass_s(7 * 24 * 3600 - 1)
    assert harness.consent.find("confirm", token) == ROW
    harness.clock.pass_s(1)
    assert harness.consent.find("confirm", token) is None
    assert harness.consent.confirm(token) is None


def test_a_confirmation_link_from_before_unsubscribing_is_void() -> None:
    harness = Harness(ROW)
    questions = [harness.token("confirm")]
    for _ in range(2):
        assert harness.consent.confirm(questions[-1]) is not None
        assert harness.consent.unsubscribe(harness.token("unsubscribe")) is not None
        for question in questions:
            assert harness.consent.find("confirm", question) is None
            assert harness.consent.confirm(question) is None
        assert harness.row().phase is SubscriptionPhase.UNCONFIRMED
        questions.append(harness.token("confirm", harness.row()))
    assert harness.consent.confirm(questions[-1]) is not None
    assert harness.row().phase is SubscriptionPhase.ACTIVE


def test_viewing_a_link_changes_nothing() -> None:
    harness = Harness(ROW)
    for purpose in ("confirm", "unsubscribe"):
        assert harness.consent.find(purpose, harness.token(purpose)) == ROW
    assert harness.row() == ROW


def test_a_link_is_valid_for_its_purpose_only() -> None:
    harness = Harness(ROW)
    assert harness.consent.confirm(harness.token("unsubscribe")) is None
    assert harness.consent.unsubscribe(harness.token("confirm")) is None
    assert harness.row() == ROW


def test_a_link_is_valid_for_its_recipient_address() -> None:
    """The case of letters in an address does not matter."""
    harness = Harness(replace(ROW, shown="ben@example.com"))
    for purpose in ("confirm", "unsubscribe"):
        assert harness.consent.find(purpose, harness.token(purpose)) is None
        there = harness.token(purpose, replace(ROW, shown="Ben@Example.com"))
        assert harness.consent.find(purpose, there) is not None


OTHERS = [replace(ROW, id=8), replace(ROW, user_id=4), replace(ROW, target=Target.HTTPS)]
OTHER_IDS = ["another of the same", "another's", "no e-mail"]


@pytest.mark.parametrize("other", OTHERS, ids=OTHER_IDS)
def test_a_link_is_valid_for_its_subscription_only(other: SubscriptionRow) -> None:
    harness = Harness(other)
    for purpose in ("confirm", "unsubscribe"):
        token = harness.token(purpose)
        assert harness.consent.find(purpose, token) is None
        assert not harness.links.holds(purpose, token, other)
    assert harness.subscriptions.one(other.user_id, other.id) == other


def test_an_altered_link_is_invalid() -> None:
    harness = Harness(ROW)
    for purpose in ("confirm", "unsubscribe"):
        token = harness.token(purpose)
        for place, character in enumerate(token):
            # Flip the highest bit, because low bits of the last character are padding.
            bits = URL_SAFE.index(character) ^ 0b100000
            altered = token[:place] + URL_SAFE[bits] + token[place + 1 :]
            assert harness.consent.find(purpose, altered) is None
        assert harness.consent.find(purpose, token[:-2]) is None


def test_a_link_is_opaque_and_fits_a_line_of_an_email() -> None:
    harness, row = Harness(), replace(ROW, id=999_999_999, user_id=999_999_999)
    for purpose in ("confirm", "unsubscribe"):
        token = harness.token(purpose, row)
        assert len(token) <= 200
        payload = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        assert b"ann" not in payload


# -- links in the previous format, created by that version from the same key and row

EARLIER: dict[Purpose, str] = {
    "confirm": "3.7.1790604800.q6bXsCYynx-wKoW7UqV-zi8JWH_5gLvkM0xwRsMpFFU",
    "unsubscribe": "3.7.0.Im-xzpBnrFqxsfjw68DJoekGmflEGfSqNEiK33OJNHg",
}


def test_a_confirmation_link_in_the_previous_format_is_valid_for_a_week() -> None:
    harness = Harness(ROW)
    harness.clock.pass_s(7 * 24 * 3600 - 1)
    assert harness.consent.confirm(EARLIER["confirm"]) is not None
    assert harness.row().phase is SubscriptionPhase.ACTIVE
    harness.clock.pass_s(1)
    assert harness.consent.confirm(EARLIER["confirm"]) is None


def test_an_unsubscribe_link_in_the_previous_format_never_expires() -> None:
    harness = Harness(replace(ROW, phase=SubscriptionPhase.ACTIVE))
    harness.clock.pass_s(5 * 365 * 24 * 3600)
    for _ in range(2):
        assert harness.consent.unsubscribe(EARLIER["unsubscribe"]) is not None
        assert (harness.row().phase, harness.row().reason) == (SubscriptionPhase.UNCONFIRMED, "unsubscribed")


def test_a_link_in_the_previous_format_is_valid_for_its_purpose_and_address_only() -> None:
    harness = Harness(ROW)
    assert harness.consent.confirm(EARLIER["unsubscribe"]) is None
    assert harness.consent.unsubscribe(EARLIER["confirm"]) is None
    there = Harness(replace(ROW, shown="ben@example.com"))
    again = Harness(replace(ROW, sealed_address=b"sealed anew"))
    assert there.consent.find("confirm", EARLIER["confirm"]) is None
    assert there.consent.find("unsubscribe", EARLIER["unsubscribe"]) is None
    assert again.consent.find("confirm", EARLIER["confirm"]) is None
    assert again.consent.find("unsubscribe", EARLIER["unsubscribe"]) is not None


@pytest.mark.parametrize("other", OTHERS, ids=OTHER_IDS)
def test_a_link_in_the_previous_format_with_changed_ids_is_invalid(other: SubscriptionRow) -> None:
    harness = Harness(ROW, other) if other.target is Target.EMAIL else Harness(other)
    mac = EARLIER["unsubscribe"].rpartition(".")[2]
    forged = f"{other.user_id}.{other.id}.0.{mac}"
    assert harness.consent.unsubscribe(forged) is None
    assert harness.subscriptions.one(other.user_id, other.id) == other


def test_a_link_in_the_previous_format_with_a_changed_expiry_is_invalid() -> None:
    harness = Harness(ROW)
    user, number, _, mac = EARLIER["confirm"].split(".")
    for until_s in ("0", "999999999999"):
        assert harness.consent.confirm(f"{user}.{number}.{until_s}.{mac}") is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "3.7.0.",
        "3.7.0." + "x" * 43,
        "3.7.0." + "x" * 44,
        "99999999999.7.0." + "x" * 43,
        "٣.7.0." + "x" * 43,
        "x" * 200,
        "e30",
        "é" * 20,
    ],
)
def test_a_malformed_link_is_invalid(token: str) -> None:
    harness = Harness(ROW)
    assert harness.consent.confirm(token) is None
    assert harness.consent.unsubscribe(token) is None
    assert harness.row() == ROW


def test_a_link_of_another_key_is_invalid() -> None:
    harness = Harness(ROW)
    there = ConsentLinks(b"another key", SITE, harness.clock).unsubscribe(ROW)
    assert harness.consent.unsubscribe(there.partition("token=")[2]) is None


def test_links_of_a_removed_subscription_are_invalid() -> None:
    harness = Harness(ROW)
    token = harness.token("unsubscribe")
    harness.subscriptions.rows.clear()
    assert harness.consent.unsubscribe(token) is None


# -- confirmation emails


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_confirmation_email_names_its_sender_and_link(language: str) -> None:
    harness = Harness(ROW)
    assert harness.consent.ask(ROW, language) == "asked"
    (mail,) = harness.post.mails
    assert (mail.to, mail.subject) == ("ann@example.com", TEXTS[language]["digest"][0])
    assert SITE in mail.text
    token = mail.text.partition("/digest/confirm?token=")[2].split()[0]
    assert harness.consent.confirm(token) is not None


def test_the_confirmation_email_omits_text_of_the_owner() -> None:
    harness = Harness(ROW)
    harness.consent.ask(replace(ROW, label="Buy now: https://spam.example"), "en")
    assert "Buy" not in harness.post.mails[0].text + harness.post.mails[0].subject


def test_an_address_gets_three_confirmation_emails_an_hour_from_all_users() -> None:
    harness = Harness(ROW)
    asked = [replace(ROW, user_id=user_id) for user_id in (3, 4, 5)]
    assert [harness.consent.ask(row, "en") for row in asked] == ["asked"] * 3
    assert harness.consent.ask(replace(ROW, user_id=6, shown="ANN@example.com"), "en") == "often"
    assert harness.consent.ask(replace(ROW, shown="ben@example.com"), "en") == "asked"
    harness.clock.pass_s(3599)
    assert harness.consent.ask(ROW, "en") == "often"
    harness.clock.pass_s(1)
    assert harness.consent.ask(ROW, "en") == "asked"


def test_tagged_addresses_count_as_one_mailbox() -> None:
    harness = Harness(ROW)
    tagged = [replace(ROW, user_id=user, shown=f"ann+{user}@example.com") for user in (3, 4, 5, 6)]
    assert [harness.consent.ask(row, "en") for row in tagged] == ["asked", "asked", "asked", "often"]


def test_an_unsubscribed_reader_gets_one_confirmation_email_a_week() -> None:
    harness = Harness(replace(ROW, phase=SubscriptionPhase.ACTIVE))
    harness.consent.unsubscribe(harness.token("unsubscribe"))
    # The subscription is removed, and another user creates it again.
    fresh = replace(ROW, id=9, user_id=4, shown="Ann+again@example.com")
    assert harness.consent.ask(harness.row(), "en") == "asked"
    harness.clock.pass_s(7 * 24 * 3600 - 60)
    assert [harness.consent.ask(row, "en") for row in (fresh, harness.row())] == ["often", "often"]
    harness.clock.pass_s(60)
    assert harness.consent.ask(harness.row(), "en") == "asked"
    # The row still records that its reader unsubscribed.
    assert harness.consent.ask(harness.row(), "en") == "often"


def test_a_user_can_cause_ten_confirmation_emails_an_hour() -> None:
    harness = Harness(ROW)
    came = [harness.consent.ask(replace(ROW, shown=f"r{number}@example.com"), "en") for number in range(11)]
    assert came == ["asked"] * 10 + ["often"]
    assert harness.consent.ask(replace(ROW, user_id=4, shown="r11@example.com"), "en") == "asked"


def test_a_failed_confirmation_email_is_reported_to_the_operator() -> None:
    harness = Harness(ROW)
    harness.post.broken = True
    assert harness.consent.ask(ROW, "en") == "mail_failed"
    assert harness.log_lines == ["email_failed kind=digest problem=mail.example.com:587 answered 451"]


def test_without_email_no_confirmation_is_sent() -> None:
    harness = Harness(ROW)
    mute = MailConsent(harness.subscriptions, harness.links, None, *limiters(harness.clock))  # type: ignore[arg-type]
    assert mute.ask(ROW, "en") == "mail_not_set_up"
    nowhere = ConsentLinks(b"a key", "", harness.clock)
    homeless = MailConsent(harness.subscriptions, nowhere, harness.post, *limiters(harness.clock))  # type: ignore[arg-type]
    assert homeless.ask(ROW, "en") == "mail_not_set_up"
    assert harness.post.mails == []
