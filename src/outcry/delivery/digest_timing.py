"""Split the alerts of a digest email into those to send now and those to send later.

An alert waits for the end of the digest window it was written in. Critical alerts do not wait if the reader chose so.
Neither do alerts of a message that was attempted before.
"""

from outcry.delivery.digest_windows import window_end_ns
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Entry, Message
from outcry.delivery.schedule import patience_ns


def due_now(message: Message, now_ns: int) -> tuple[list[Entry], int | None]:
    """Return the alerts of a digest to send now, and when the others are due (None if there are none).

    The others are all due at the end of the digest window of the first alert.
    """
    end_ns = _end_ns(message)
    if end_ns <= now_ns or message.attempts:
        return list(message.entries), None
    wished = message.subscription.at_once
    at_once = [entry for entry in message.entries if wished and entry.alert.severity == "critical"]
    return at_once, end_ns if len(at_once) < len(message.entries) else None


def is_expired(message: Message, now_ns: int) -> bool:
    """Return whether a message must not be sent any more, because it should have been sent too long ago.

    A digest should be sent at the end of its window, any other message when it was written or resent.
    """
    target = message.subscription.target
    wanted_ns = _end_ns(message) if target is Target.EMAIL else message.created_ns
    return now_ns - wanted_ns >= patience_ns(target)


def _end_ns(message: Message) -> int:
    reader = message.reader
    return window_end_ns(
        message.subscription.window, message.created_ns, reader.time_zone, reader.digest_hour
    )
