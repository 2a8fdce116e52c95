"""Which alerts of a digest are sent now, and when the others are.

Rules kept: an alert waits for the end of the window it was written in and no longer; what is critical does not wait,
where its reader wishes so; nor does what was tried once.
"""

from outcry.ports.outbox import Entry, Parcel
from outcry.services.dispatch.windows import window_end_ns


def due_now(parcel: Parcel, now_ns: int) -> tuple[list[Entry], int | None]:
    """Of an e-mail parcel's entries those that are to be sent now, in their order, and when the others are; None where
    there are no others. The window is that of the first entry: what was written after it goes with it."""
    subscription, reader = parcel.subscription, parcel.reader
    end_ns = window_end_ns(subscription.window, parcel.created_ns, reader.time_zone, reader.digest_hour)
    if end_ns <= now_ns or parcel.tries:
        return list(parcel.entries), None
    at_once = [
        entry for entry in parcel.entries if subscription.at_once and entry.alert.severity == "critical"
    ]
    return at_once, end_ns if len(at_once) < len(parcel.entries) else None
