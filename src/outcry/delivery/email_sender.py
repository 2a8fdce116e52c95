"""Send digests of alerts through the operator's email server.

A resent email has the same Message-ID, so email programs show it once. Each email has a one-click unsubscribe header
(RFC 8058). The log records why an email was not sent.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from email.errors import MessageError
from email.message import EmailMessage

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.delivery.digest_message import DigestMessage, Links, render_digest
from outcry.delivery.model import SubscriptionRow
from outcry.delivery.outbox_model import Message
from outcry.delivery.sender import SendResult, Verdict
from outcry.people.smtp import MailResult, Outcome, SmtpServer, new_message, send_once

#: Concurrent connections to the mail server. Many digests are due at the full hour, and servers limit clients that
#: open more.
AT_A_TIME = 8
_PATIENCE_S, _WITHIN_S = 3.0, 15.0
_LONGEST_EXCERPT = 1000
_VERDICTS = {
    Outcome.TAKEN: (Verdict.ARRIVED, "ok"),
    Outcome.LATER: (Verdict.LATER, "mail_failed"),
    Outcome.NO_MAILBOX: (Verdict.BOUNCED, "mail_refused"),
    Outcome.NOT_FROM_US: (Verdict.LATER, "mail_failed"),
}


class MailSender:
    """Implements `Sender` for email.

    `mail_from`: sender address. `site`: base URL of links. `unsubscribe`: function that returns the unsubscribe link of
    a subscription.
    """

    def __init__(
        self, server: SmtpServer, mail_from: str, site: str, unsubscribe: Callable[[SubscriptionRow], str],
        clock: Clock, report: Report,
    ) -> None:  # fmt: skip
        self._server, self._from, self._site = server, mail_from, site.rstrip("/")
        self._unsubscribe, self._clock, self._report = unsubscribe, clock, report
        self._places = asyncio.Semaphore(AT_A_TIME)

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        """Send a message once, within 20 seconds."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._places.acquire()
        except TimeoutError:
            return SendResult(Verdict.BUSY, "too_busy")
        try:
            return await self._send(message, address)
        finally:
            self._places.release()

    async def _send(self, message: Message, address: str) -> SendResult:
        row, began = message.subscription, time.perf_counter()
        links = Links(
            f"{self._site}/alerts", f"{self._site}/account/webhooks/{row.id}", self._unsubscribe(row)
        )
        digest = await asyncio.to_thread(render_digest, message, links)
        try:
            email = self._email(message.message_id, address, digest, links)
        except (
            MessageError,
            ValueError,
        ):  # an email address that would inject a header; stored ones are validated
            return SendResult(Verdict.REFUSED, "email_form")
        done = await send_once(self._server, email, _WITHIN_S)
        verdict, code = _VERDICTS[done.outcome]
        if verdict is Verdict.LATER:
            self._report(LogEvent.EMAIL_FAILED, kind="alerts", problem=done.reason)
        return SendResult(
            verdict, code, done.status,
            took_ms=round((time.perf_counter() - began) * 1000), phases_ms=done.phases_ms, excerpt=_excerpt(done),
            request=f"{digest.subject}\n\n{digest.request}",
            reported_missed=verdict is Verdict.ARRIVED and message.missed > 0,
        )  # fmt: skip

    def _email(self, message_id: str, address: str, digest: DigestMessage, links: Links) -> EmailMessage:
        email = new_message(self._from, address, digest.subject, self._clock.now_ns(), message_id)
        email["List-Unsubscribe"] = f"<{links.unsubscribe}>"
        email["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        email.set_content(digest.text)
        email.add_alternative(digest.html, subtype="html")
        return email


def _excerpt(done: MailResult) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in done.answer[:_LONGEST_EXCERPT])
