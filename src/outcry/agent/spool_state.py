"""The state that a spooled queue stores beside its events, and the events that replace discarded ones."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from outcry.base.portable_files import replace
from outcry.trades.feed import Amend, Bars, CaughtUp, Event, FeedCaps, Gap, Status, Trades


class SpoolState(msgspec.Struct):
    """The state of a queue, stored beside its events.

    session: id of the newest push session that filled the queue, empty if there is none; each start of the agent
    begins a new one. first: number of the first event not discarded. instead: encoded events to send in place of those
    discarded before `first`. caps: the capabilities of the feed.
    """

    session: str = ""
    first: int = 0
    instead: list[bytes] = []
    caps: FeedCaps | None = None

    @staticmethod
    def read(path: Path) -> "SpoolState":
        """Return the stored state, or an empty one if the file is missing or unreadable."""
        with suppress(OSError, ValueError):
            return msgspec.json.decode(path.read_bytes(), type=SpoolState)
        return SpoolState()

    def write(self, path: Path) -> None:
        """Write the state atomically. Raises `OSError`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_bytes(msgspec.json.encode(self))
        replace(new, path)


def replacement_events(lost: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events that replace discarded ones in the queue.

    These are one gap over the discarded rows, all amendments, and the last `CaughtUp` and `Status`.
    """
    spans: list[tuple[int, int]] = []
    amends: list[Event] = []
    last: dict[type[Event], Event] = {}
    for event in lost:
        match event:
            case Trades(rows) | Bars(rows):
                length_ns = event.quality.length_ns if isinstance(event, Bars) else 1
                times = rows["ts_event"]
                spans.append((int(times.min()), int(times.max()) + length_ns))
            case Gap(from_ns, to_ns):
                spans.append((from_ns, to_ns))
            case Amend():
                amends.append(event)
            case CaughtUp() | Status():
                last[type(event)] = event
            case _:
                pass
    gap = [Gap(min(a for a, _ in spans), max(b for _, b in spans), "aged_out")] if spans else []
    return (*gap, *amends, *last.values())
