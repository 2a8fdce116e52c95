"""The port for mail that is sent to one person because of something that person did."""

from dataclasses import dataclass
from typing import Protocol


class MailFailed(Exception):
    """The mail could not be handed over; says why in words fit for the operator's log. Holds no secret."""


@dataclass(frozen=True, slots=True)
class Mail:
    """One message in plain text, to one address."""

    to: str
    subject: str
    text: str


class Mailer(Protocol):
    """Hands mail to a server."""

    def send(self, mail: Mail) -> None:
        """Hand it over before returning, within ten seconds. Raises `MailFailed`."""
        ...
