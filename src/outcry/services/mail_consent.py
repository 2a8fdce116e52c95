"""The consent of whoever reads at an e-mail address: asked for, given and taken back, by links in mail.

Rules kept: before a yes nothing is mailed but the question, and that not often; a link holds for one subscription and
the address it was mailed to, and opening it changes nothing; why one does not hold is told to nobody.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from threading import Lock
from typing import Literal

from outcry.core.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.ports.clock import Clock
from outcry.ports.delivery import SubscriptionRow, Target
from outcry.ports.limiter import Limiter
from outcry.ports.mailer import Mailer, MailFailed
from outcry.services.identity.letters import letter
from outcry.services.subscriptions import NoSubscription, Subscriptions

Purpose = Literal["confirm", "unsubscribe"]
#: What came of asking; `often`: it was asked too often in the last hour.
Asked = Literal["asked", "often", "mail_failed", "mail_not_set_up"]

CONFIRM_PAGE, UNSUBSCRIBE_PAGE = "/digest/confirm", "/digest/unsubscribe"
#: How long a question can be answered; a mail can be unsubscribed from for as long as it is kept.
ASKED_FOR_NS = 7 * NANOS_PER_DAY
#: Questions in an hour to one address, whoever asks, and by one user, wherever to.
TO_ONE_ADDRESS, BY_ONE_USER = 3, 10
#: A limiter counts by the minute; told a sixtieth of the time, it counts by the hour.
_MINUTES = 60
_TOKEN = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,12})\.[\w-]{43}", re.ASCII)
_FOR_EVER = 0


class MailConsent:
    """Asks readers, and takes their answers. `key`: what links are made with; `limiter`: not used by anything else;
    `mailer`: None where the service sends no mail. Methods that look for a subscription may raise `StoreBusy`."""

    def __init__(
        self, subscriptions: Subscriptions, key: bytes, mailer: Mailer | None, public_url: str, limiter: Limiter,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._subscriptions, self._key, self._mailer = subscriptions, key, mailer
        self._site, self._limiter, self._clock = public_url.rstrip("/"), limiter, clock
        self._lock = Lock()
        self._report: Callable[[str], object] = lambda _text: None

    def report_to(self, report: Callable[[str], object]) -> None:
        """Tell of mail that could not be sent in the operator's log."""
        self._report = report

    def ask(self, row: SubscriptionRow, language: str) -> Asked:
        """Mail the question to an e-mail subscription's address; within ten seconds."""
        if self._mailer is None or not self._site:
            return "mail_not_set_up"
        if self._often(row):
            return "often"
        until_s = (self._clock.now_ns() + ASKED_FOR_NS) // NANOS_PER_SECOND
        link = f"{self._site}{CONFIRM_PAGE}?token={self._token('confirm', row, until_s)}"
        try:
            self._mailer.send(letter("digest", language, row.shown, site=self._site, link=link))
        except MailFailed as failure:
            self._report(f"a mail (digest) could not be sent: {failure}")
            return "mail_failed"
        return "asked"

    def unsubscribe_link(self, row: SubscriptionRow) -> str:
        """Where whoever reads a subscription's mail can say that they want no more of it."""
        return f"{self._site}{UNSUBSCRIBE_PAGE}?token={self._token('unsubscribe', row, _FOR_EVER)}"

    def find(self, purpose: Purpose, token: str) -> SubscriptionRow | None:
        """The subscription a link is about; None where it does not hold."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        user_id, subscription_id, until_s = map(int, parts.groups())
        if until_s != _FOR_EVER and self._clock.now_ns() >= until_s * NANOS_PER_SECOND:
            return None
        try:
            row = self._subscriptions.one(user_id, subscription_id)
        except NoSubscription:
            return None
        made = self._token(purpose, row, until_s)
        return row if row.target is Target.EMAIL and hmac.compare_digest(made, token) else None

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

    def _token(self, purpose: Purpose, row: SubscriptionRow, until_s: int) -> str:
        """Whose subscription, which one, until when (0: for ever), and that this was made here for its address."""
        said = f"{row.user_id}.{row.id}.{until_s}"
        text = f"{purpose}:{said}:{row.shown.lower()}".encode()
        digest = hashlib.blake2b(text, digest_size=32, key=self._key, person=b"mail consent").digest()
        return f"{said}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
