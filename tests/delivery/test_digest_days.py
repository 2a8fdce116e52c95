"""Digests over days of alerts: only the clock is replaced, and a real SMTP server receives the messages."""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
from support.events import tell_into
from tests.delivery.delivery_harness import Harness, open_harness
from tests.people.test_mail import Taken, server

from outcry.delivery.dispatcher import Dispatcher
from outcry.delivery.email_sender import MailSender
from outcry.delivery.model import Target
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.people.smtp import smtp_server


def ns(text: str) -> int:
    """Convert `2026-03-08 06:59` in UTC to ns."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


class Days:
    """Delivery of emails. The reader's time zone is New York, the daily digest is sent at 17:00."""

    def __init__(self, harness: Harness, taken: Taken, port: int) -> None:
        self.harness, self.taken, self.log_lines = harness, taken, list[str]()
        mails = MailSender(
            smtp_server(f"smtp://127.0.0.1:{port}"), "outcry@example.com", "https://outcry.example.com",
            lambda row: f"https://outcry.example.com/digest/unsubscribe?token={row.id}", harness.clock,
            tell_into(self.log_lines),
        )  # fmt: skip
        harness.sender = mails  # type: ignore[assignment]
        self._worker: Dispatcher = harness.worker("mail")

    def subscribe(self, **parts: object) -> None:
        harness = self.harness
        harness.subscribe(
            harness.person(), Target.EMAIL, shown="ann@example.com", sealed_secret=None, **parts
        )

    def until(self, end: str, each_ns: int = NANOS_PER_MINUTE) -> list[tuple[str, str]]:
        """Advance the time with rounds of deliveries at an interval.

        Returns the emails received, each with its minute (UTC) and its subject."""
        came: list[tuple[str, str]] = []
        while self.harness.clock.ns < ns(end):
            self.harness.step(self._worker)
            at = datetime.fromtimestamp(self.harness.clock.ns // 10**9, UTC)
            came += [(f"{at:%m-%d %H:%M}", str(mail["Subject"])) for mail in self.taken.mails]
            self.taken.mails.clear()
            self.harness.clock.ns += each_ns
        return came


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Days]:
    taken = Taken()
    with server(taken) as port, open_harness(tmp_path) as harness:
        yield Days(harness, taken, port)


def begin(days: Days, at: str, **parts: object) -> None:
    """Start half a minute past, because alerts are collected for a second before a worker claims them."""
    days.harness.clock.ns = ns(at) + 30 * NANOS_PER_SECOND
    days.subscribe(**parts)


def test_an_hour_of_alerts_is_one_email_and_an_empty_hour_sends_none(days: Days) -> None:
    begin(days, "2026-01-15 14:00", window="hour")
    days.harness.fire(2, severity="info")
    assert days.until("2026-01-15 14:20") == []
    days.harness.fire(3, severity="warn", symbol="NQ")
    assert days.until("2026-01-15 18:00") == [("01-15 15:00", "5 alerts: ES, NQ")]


def test_critical_alerts_are_emailed_at_once_and_alone(days: Days) -> None:
    begin(days, "2026-01-15 14:00", window="day")
    days.harness.fire(1, severity="info")
    assert days.until("2026-01-15 14:10") == []
    days.harness.fire(1, severity="critical", symbol="CL")
    days.harness.fire(1, severity="info", symbol="NQ")
    assert days.until("2026-01-15 14:20") == [("01-15 14:10", "1 alert: CL")]
    assert days.until("2026-01-15 22:10", 10 * NANOS_PER_MINUTE) == [("01-15 22:00", "2 alerts: ES, NQ")]


def test_critical_alerts_wait_if_the_reader_chose_so(days: Days) -> None:
    begin(days, "2026-01-15 14:00", window="quarter", at_once=False)
    days.harness.fire(1, severity="critical")
    assert days.until("2026-01-15 15:00") == [("01-15 14:15", "1 alert: ES")]


@pytest.mark.parametrize(
    ("begins", "ends", "came"),
    [
        # 8 March 2026: 17:00 is 22:00 UTC on Saturday, 21:00 from Sunday on
        ("2026-03-07 20:30", "2026-03-09 22:30", ["03-07 22:00", "03-08 21:00", "03-09 21:00"]),
        # 1 November 2026: 21:00 UTC on Saturday, 22:00 from Sunday on
        ("2026-10-31 20:30", "2026-11-02 22:30", ["10-31 21:00", "11-01 22:00", "11-02 22:00"]),
    ],
    ids=["forward", "back"],
)
def test_a_daily_digest_keeps_its_hour_when_the_clock_changes(
    days: Days, begins: str, ends: str, came: list[str]
) -> None:
    begin(days, begins, window="day")
    found: list[tuple[str, str]] = []
    while days.harness.clock.ns < ns(ends):
        days.harness.fire(1, severity="info")
        hour_on = datetime.fromtimestamp((days.harness.clock.ns + NANOS_PER_HOUR) // 10**9, UTC)
        found += days.until(f"{hour_on:%Y-%m-%d %H:%M}", 10 * NANOS_PER_MINUTE)
    assert [at for at, _ in found] == came
    # one alert at half past each hour: those before the first digest, then 23, 24 or 25 per day
    counts = [subject.partition(" ")[0] for _, subject in found]
    assert counts == (["2", "23", "24"] if "03-07" in begins else ["1", "25", "24"])


def test_a_daily_digest_survives_an_outage_of_the_mail_server(days: Days) -> None:
    """Its oldest alert has waited for a day by then; attempts count from the hour of the digest."""
    begin(days, "2026-01-15 22:00", window="day", at_once=False)
    days.harness.fire(1, severity="info")
    days.taken.answer = "451 4.3.0 try later"
    assert days.until("2026-01-16 22:00", 10 * NANOS_PER_MINUTE) == []
    assert days.until("2026-01-16 22:30") == []
    days.taken.answer = "250 OK"
    assert days.until("2026-01-16 22:50") == [("01-16 22:36", "1 alert: ES")]


def test_a_retried_digest_is_the_same_email(days: Days) -> None:
    begin(days, "2026-01-15 14:00", window="quarter")
    days.harness.fire(1, severity="info")
    ids: list[str] = []

    async def refuse(_server: object, _session: object, envelope: object) -> str:
        from email import message_from_bytes
        from email.policy import default

        mail = message_from_bytes(envelope.content, policy=default)  # type: ignore[attr-defined]
        assert isinstance(mail, EmailMessage)
        ids.append(str(mail["Message-ID"]))
        return "451 later" if len(ids) < 3 else "250 OK"

    days.taken.handle_DATA = refuse  # type: ignore[method-assign,assignment]
    days.until("2026-01-15 15:00")
    assert len(ids) == 3
    assert len(set(ids)) == 1
