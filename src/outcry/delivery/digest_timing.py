"""Which alerts of a digest are sent now, when the others are, and since when it has been late.

Rules kept: an alert waits for the end of the window it was written in and no longer; what is critical does not wait,
where its reader wishes so; nor does what was tried once.
"""

from outcry.delivery.digest_windows import window_end_ns
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Entry, Message


def due_now(message: Message, now_ns: int) -> tuple[list[Entry], int | None]:
    """Of an e-mail message's entries those that are to be sent now, in their order, and when the others are; None where
    there are no others. The window is that of the first entry: what was written after it goes with it."""
    end_ns = _end_ns(message)
    if end_ns <= now_ns or message.attempts:
        return list(message.entries), None
    wished = message.subscription.at_once
    at_once = [entry for entry in message.entries if wished and entry.alert.severity == "critical"]
    return at_once, end_ns if len(at_once) < len(message.entries) else None


def wanted_ns(message: Message) -> int:
    """Since when a message is to be sent: from when it was written, or asked for again, but for a digest, whose window
    has to end first."""
    return _end_ns(message) if message.subscription.target is Target.EMAIL else message.created_ns


def _end_ns(message: Message) -> int:
    reader = message.reader
    return window_end_ns(
        message.subscription.window, message.created_ns, reader.time_zone, reader.digest_hour
    )
