"""Interface for sending email to a user."""

from dataclasses import dataclass
from typing import Protocol


class MailFailed(Exception):
    """The email could not be sent. The message is fit for the operator's log and contains no secret."""


@dataclass(frozen=True, slots=True)
class Mail:
    """An email in plain text to one email address."""

    to: str
    subject: str
    text: str


class Mailer(Protocol):
    """Sends email."""

    def send(self, mail: Mail) -> None:
        """Send an email within ten seconds. Raises `MailFailed`."""
        ...
