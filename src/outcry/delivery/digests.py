"""Which alerts of a digest are sent now, when the others are, and since when it has been late.

Rules kept: an alert waits for the end of the window it was written in and no longer; what is critical does not wait,
where its reader wishes so; nor does what was tried once.
"""

from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Entry, Parcel
from outcry.delivery.windows import window_end_ns


def due_now(parcel: Parcel, now_ns: int) -> tuple[list[Entry], int | None]:
    """Of an e-mail parcel's entries those that are to be sent now, in their order, and when the others are; None where
    there are no others. The window is that of the first entry: what was written after it goes with it."""
    end_ns = _end_ns(parcel)
    if end_ns <= now_ns or parcel.attempts:
        return list(parcel.entries), None
    wished = parcel.subscription.at_once
    at_once = [entry for entry in parcel.entries if wished and entry.alert.severity == "critical"]
    return at_once, end_ns if len(at_once) < len(parcel.entries) else None


def wanted_ns(parcel: Parcel) -> int:
    """Since when a parcel is to be sent: from when it was written, or asked for again, but for a digest, whose window
    has to end first."""
    return _end_ns(parcel) if parcel.subscription.target is Target.EMAIL else parcel.created_ns


def _end_ns(parcel: Parcel) -> int:
    reader = parcel.reader
    return window_end_ns(parcel.subscription.window, parcel.created_ns, reader.time_zone, reader.digest_hour)
