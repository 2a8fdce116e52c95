"""Notify owners about failing and disabled webhooks, in the account's log and by email.

A notice contains only the displayable part of a URL or email address. A failure to send an email is logged only.
"""

from collections.abc import Mapping

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.delivery.outbox_model import Message
from outcry.people.audit import Event
from outcry.people.messages import About, build_message
from outcry.people.smtp import MailFailed, SmtpMailer
from outcry.people.store import SqlIdentityStore

_WHY: Mapping[str, Mapping[str, str]] = {
    "en": {
        "gone": "the endpoint reports that it no longer exists",
        "failing": "no delivery has succeeded for five days",
        "bounced": "the mailbox rejected three emails in a row",
        "address_lost": "its stored URL cannot be decrypted any more; enter it again",
        "other": "its URL is no longer allowed",
    },
    "de": {
        "gone": "der Endpunkt meldet, dass es ihn nicht mehr gibt",
        "failing": "seit fünf Tagen war keine Zustellung erfolgreich",
        "bounced": "das Postfach hat drei E-Mails nacheinander abgelehnt",
        "address_lost": "die gespeicherte URL lässt sich nicht mehr entschlüsseln; geben Sie sie neu ein",
        "other": "die URL ist nicht mehr erlaubt",
    },
}


class OwnerNotices:
    """Notifies the owners of subscriptions. Called in a separate thread, one call at a time.

    `mailer` is None if the service sends no email.
    """

    def __init__(
        self, store: SqlIdentityStore, mailer: SmtpMailer | None, clock: Clock, public_url: str,
        report: Report,
    ) -> None:  # fmt: skip
        self._store, self._mailer, self._clock = store, mailer, clock
        self._public_url, self._report = public_url.rstrip("/"), report

    def warned(self, message: Message, hours: int) -> None:
        """Warn the owner that nothing has been delivered for this many hours."""
        self._note(message, Event.SUBSCRIPTION_FAILING, hours=str(hours))
        self._mail(message, "webhook_failing", hours=str(hours))

    def switched_off(self, message: Message, reason: str) -> None:
        """Notify the owner that the subscription was disabled. `reason`: the code of why it was disabled."""
        self._note(message, Event.SUBSCRIPTION_OFF, code=reason)
        words = _WHY.get(message.reader.language, _WHY["en"])
        self._mail(message, "webhook_off", why=words.get(reason, words["other"]))

    def _note(self, message: Message, event: Event, **details: str) -> None:
        row = message.subscription
        fields = {"label": row.label, "target": row.target.value, "shown": row.shown, **details}
        try:
            self._store.note(row.user_id, event.value, fields, "", "", self._clock.now_ns())
        except StoreBusy as problem:
            self._report(LogEvent.OWNER_NOTICE_FAILED, problem=str(problem))

    def _mail(self, message: Message, about: About, **facts: str) -> None:
        if self._mailer is None:
            return
        row, reader = message.subscription, message.reader
        link = f"{self._public_url}/account/webhooks/{row.id}"
        try:
            self._mailer.send(
                build_message(about, reader.language, reader.email, link=link, shown=row.shown, **facts)
            )
        except MailFailed as problem:
            self._report(LogEvent.EMAIL_FAILED, kind=about, problem=str(problem))
