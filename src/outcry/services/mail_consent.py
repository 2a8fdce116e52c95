"""The consent of whoever reads at an e-mail address: asked for, given and taken back, by links in mail.

Rules kept: before a yes nothing is mailed but the question, and that not often; why a link does not hold is told to
nobody.
"""

from collections.abc import Callable
from threading import Lock
from typing import Literal

from outcry.ports.clock import Clock
from outcry.ports.delivery import SubscriptionRow
from outcry.ports.limiter import Limiter
from outcry.ports.mailer import Mailer, MailFailed
from outcry.services.consent_links import ConsentLinks, Purpose
from outcry.services.identity.letters import letter
from outcry.services.subscriptions import NoSubscription, Subscriptions

#: What came of asking; `often`: it was asked too often in the last hour.
Asked = Literal["asked", "often", "mail_failed", "mail_not_set_up"]

#: Questions in an hour to one address, whoever asks, and by one user, wherever to.
TO_ONE_ADDRESS, BY_ONE_USER = 3, 10
#: A limiter counts by the minute; told a sixtieth of the time, it counts by the hour.
_MINUTES = 60


class MailConsent:
    """Asks readers, and takes their answers. `limiter`: not used by anything else; `mailer`: None where the service
    sends no mail. Methods that look for a subscription may raise `StoreBusy`."""

    def __init__(
        self, subscriptions: Subscriptions, links: ConsentLinks, mailer: Mailer | None, limiter: Limiter, clock: Clock
    ) -> None:  # fmt: skip
        self._subscriptions, self._links, self._mailer = subscriptions, links, mailer
        self._limiter, self._clock, self._lock = limiter, clock, Lock()
        self._report: Callable[[str], object] = lambda _text: None

    def report_to(self, report: Callable[[str], object]) -> None:
        """Tell of mail that could not be sent in the operator's log."""
        self._report = report

    def ask(self, row: SubscriptionRow, language: str) -> Asked:
        """Mail the question to an e-mail subscription's address; within ten seconds."""
        if self._mailer is None or not self._links.site:
            return "mail_not_set_up"
        if self._often(row):
            return "often"
        mail = letter("digest", language, row.shown, site=self._links.site, link=self._links.confirm(row))
        try:
            self._mailer.send(mail)
        except MailFailed as failure:
            self._report(f"a mail (digest) could not be sent: {failure}")
            return "mail_failed"
        return "asked"

    def find(self, purpose: Purpose, token: str) -> SubscriptionRow | None:
        """The subscription a link is about; None where it does not hold."""
        whose = self._links.whose(token)
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
        return self._answered("unsubscribe", token, self._subscriptions.unsubscribe)

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
        now_ns = self._clock.now_ns() // _MINUTES
        with self._lock:  # asked from several threads
            return not (
                self._limiter.take(f"to:{row.shown.lower()}", TO_ONE_ADDRESS, now_ns).allowed
                and self._limiter.take(f"by:{row.user_id}", BY_ONE_USER, now_ns).allowed
            )
