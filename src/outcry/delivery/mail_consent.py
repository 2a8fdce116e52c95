"""Consent of the reader at an email address: requested, given and withdrawn through links in emails.

Until a reader consents, the service sends only the request for consent: a few times an hour at most, and once a week
after the reader has unsubscribed. Tagged email addresses (`a+b@…`) count as one mailbox. The reason why a link is
invalid is not disclosed.
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
from outcry.people.messages import build_message
from outcry.people.smtp import MailFailed, SmtpMailer

#: Result of a request. `often`: too many requests lately.
ConsentRequest = Literal["asked", "often", "mail_failed", "mail_not_set_up"]

#: Requests an hour to one mailbox and by one user; requests a week to a mailbox whose reader has unsubscribed.
TO_ONE_ADDRESS, BY_ONE_USER, AFTER_A_NO = 3, 10, 1
#: Factors by which the clocks of the limiters are slowed, so that one minute of a limiter is an hour or a week.
HOURLY, WEEKLY = 60, 60 * 24 * 7


class MailConsent:
    """Ask readers for consent by email, and handle the links they open.

    `hourly` and `weekly`: rate limiters for requests for consent. Limiters count per minute, so these have slowed
    clocks, on which a minute takes an hour or a week. `mailer`: None if the service sends no email. Methods that
    read a subscription may raise `StoreBusy`.
    """

    def __init__(
        self, subscriptions: Subscriptions, links: ConsentLinks, mailer: SmtpMailer | None, hourly: PromptLimiter,
        weekly: PromptLimiter,
    ) -> None:  # fmt: skip
        self._subscriptions, self._links, self._mailer = subscriptions, links, mailer
        self._hourly, self._weekly, self._lock = hourly, weekly, Lock()
        self._report: Report = discard

    def report_to(self, report: Report) -> None:
        """Use `report` to log emails that could not be sent."""
        self._report = report

    @property
    def able(self) -> bool:
        """Return whether this service can ask for consent, that is, whether it sends email and has a public URL."""
        return self._mailer is not None and bool(self._links.site)

    def ask(self, row: SubscriptionRow, language: str) -> ConsentRequest:
        """Email the request for consent to a subscription's email address; takes up to ten seconds."""
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
        """Return the subscription that a consent link belongs to; None if the link is invalid."""
        whose = self._links.whose(purpose, token)
        if whose is None:
            return None
        try:
            row = self._subscriptions.one(*whose)
        except NoSubscription:
            return None
        return row if self._links.holds(purpose, token, row) else None

    def confirm(self, token: str) -> SubscriptionRow | None:
        """Record the reader's consent and return the subscription; None if the link is invalid.

        Confirming again has no further effect.
        """
        return self._answered("confirm", token, self._subscriptions.confirm)

    def unsubscribe(self, token: str) -> SubscriptionRow | None:
        """Record that the reader unsubscribed and return the subscription; None if the link is invalid.

        Unsubscribing again has no further effect.
        """
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
        except NoSubscription:  # deleted meanwhile
            return None
        return row

    def _often(self, row: SubscriptionRow) -> bool:
        mailbox = mailbox_of(row.shown)
        with self._lock:  # called from several threads
            return not (
                self._hourly.take(f"by:{row.user_id}", BY_ONE_USER).allowed
                and self._hourly.take(f"to:{mailbox}", TO_ONE_ADDRESS).allowed
                and not self._requested_since_refusal(row, mailbox)
            )

    def _requested_since_refusal(self, row: SubscriptionRow, mailbox: str) -> bool:
        """Return whether a mailbox whose reader unsubscribed was sent another request for consent within the week.

        Requests for this subscription are in the database. Requests for other subscriptions are counted in memory only.
        """
        refused = row.reason == "unsubscribed" or not self._weekly.peek(f"no:{mailbox}", 1).allowed
        return refused and not self._weekly.take(f"again:{mailbox}", AFTER_A_NO).allowed
