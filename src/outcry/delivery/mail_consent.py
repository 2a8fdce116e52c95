"""The consent of whoever reads at an e-mail address: asked for, given and taken back, by links in mail.

Rules kept: before a yes nothing is mailed but the question, and that not often, least of all to who has unsubscribed;
a mailbox is one however it is tagged; why a link does not hold is told to nobody.
"""

from collections.abc import Callable
from threading import Lock
from typing import Literal

from outcry.access.limiter import PromptLimiter
from outcry.base.log_events import LogEvent, Report, discard
from outcry.delivery.consent_links import ConsentLinks, Purpose
from outcry.delivery.model import SubscriptionRow
from outcry.delivery.subscriptions import NoSubscription, Subscriptions
from outcry.delivery.target_addresses import mailbox_of
from outcry.people.mailer import Mailer, MailFailed
from outcry.people.messages import build_message

#: What came of asking; `often`: it was asked too often lately.
Asked = Literal["asked", "often", "mail_failed", "mail_not_set_up"]

#: Questions in an hour to one mailbox, whoever asks, and by one user, wherever to; and in a week to one whose reader
#: has unsubscribed from anything.
TO_ONE_ADDRESS, BY_ONE_USER, AFTER_A_NO = 3, 10, 1
#: How many times slower than a monotonic clock a limiter's clock runs, so that its minute is an hour or a week.
HOURLY, WEEKLY = 60, 60 * 24 * 7


class MailConsent:
    """Asks readers, and takes their answers. `hourly`, `weekly`: limiters that nothing else uses, on clocks that run
    `HOURLY` and `WEEKLY` times slower; `mailer`: None
    where the service sends no mail. Methods that look for a subscription may raise `StoreBusy`."""

    def __init__(
        self, subscriptions: Subscriptions, links: ConsentLinks, mailer: Mailer | None, hourly: PromptLimiter,
        weekly: PromptLimiter,
    ) -> None:  # fmt: skip
        self._subscriptions, self._links, self._mailer = subscriptions, links, mailer
        self._hourly, self._weekly, self._lock = hourly, weekly, Lock()
        self._report: Report = discard

    def report_to(self, report: Report) -> None:
        """Set where failed emails are reported."""
        self._report = report

    @property
    def able(self) -> bool:
        """Whether this service sends mail at all."""
        return self._mailer is not None and bool(self._links.site)

    def ask(self, row: SubscriptionRow, language: str) -> Asked:
        """Mail the question to an e-mail subscription's address; within ten seconds."""
        if self._mailer is None or not self._links.site:
            return "mail_not_set_up"
        if self._often(row):
            return "often"
        mail = build_message(
            "digest", language, row.shown, site=self._links.site, link=self._links.confirm(row)
        )
        try:
            self._mailer.send(mail)
        except MailFailed as failure:
            self._report(LogEvent.EMAIL_FAILED, kind="digest", problem=str(failure))
            return "mail_failed"
        return "asked"

    def find(self, purpose: Purpose, token: str) -> SubscriptionRow | None:
        """The subscription a link is about; None where it does not hold."""
        whose = self._links.whose(purpose, token)
        if whose is None:
            return None
        try:
            row = self._subscriptions.one(*whose)
        except NoSubscription:
            return None
        return row if self._links.holds(purpose, token, row) else None

    def confirm(self, token: str) -> SubscriptionRow | None:
        """Whoever reads there says yes, once or again; None where the link does not hold."""
        return self._answered("confirm", token, self._subscriptions.confirm)

    def unsubscribe(self, token: str) -> SubscriptionRow | None:
        """Whoever reads there wants no more of it, once or again; None where the link does not hold."""
        row = self._answered("unsubscribe", token, self._subscriptions.unsubscribe)
        if row is not None:
            with self._lock:
                self._weekly.take(f"no:{mailbox_of(row.shown)}", 1)
        return row

    def _answered(
        self, purpose: Purpose, token: str, answer: Callable[[int, int], bool]
    ) -> SubscriptionRow | None:
        row = self.find(purpose, token)
        if row is None:
            return None
        try:
            answer(row.user_id, row.id)
        except NoSubscription:  # removed meanwhile
            return None
        return row

    def _often(self, row: SubscriptionRow) -> bool:
        mailbox = mailbox_of(row.shown)
        with self._lock:  # asked from several threads
            return not (
                self._hourly.take(f"by:{row.user_id}", BY_ONE_USER).allowed
                and self._hourly.take(f"to:{mailbox}", TO_ONE_ADDRESS).allowed
                and not self._asked_since_no(row, mailbox)
            )

    def _asked_since_no(self, row: SubscriptionRow, mailbox: str) -> bool:
        """Whether a mailbox somebody unsubscribed at was asked within the week; of this subscription that is known for
        good, of others as long as this runs."""
        said_no = row.reason == "unsubscribed" or not self._weekly.peek(f"no:{mailbox}", 1).allowed
        return said_no and not self._weekly.take(f"again:{mailbox}", AFTER_A_NO).allowed
