"""Events of the event stream, encoded once for all readers, and the alerts that a reader has missed.

A reader is the client of one event stream. It receives an alert only if its key may see the alert's feed; this is
decided for each alert.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from outcry.access.licences import OPERATOR, Scope
from outcry.answers.alerts import entry
from outcry.answers.builder import levels_answer
from outcry.answers.describe import developing
from outcry.answers.selection import symbol_matches
from outcry.answers.session_view import SessionView
from outcry.base.timestamps import iso_timestamp
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import LiveSource, Registry, live_source
from outcry.live.store import LiveStore
from outcry.market.instruments import Contract, Universe, UnknownName
from outcry.market.live_view import LiveView
from outcry.wire.answers import DataSource, LevelsAnswer, number
from outcry.wire.stream import Quote, State

#: Maximum missed alerts sent to a reconnecting reader, newest first.
MAX_MISSED = 1000

#: Maximum cached lists of today's alerts, one for each set of visible feeds.
_MOST_TODAY = 256


def event(name: str, data: bytes, seq: int | None = None) -> bytes:
    """Encode one server-sent event; `data` is JSON without line breaks."""
    mark = b"" if seq is None else b"id: %d\n" % seq
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), mark, data)


def state_event(state: State) -> bytes:
    """Return the event for a change of a symbol's data source or of the reason why it has none."""
    return event("state", msgspec.json.encode(state))


class SymbolEvents:
    """Events of a symbol: the small one (`quote`) is encoded at once, the whole answer when it is first needed.

    `rest`: what the answer contains apart from the fields that follow from the last price. If only the price changes,
    `rest` stays equal and `quote` is sent, else `levels`. `encode`: returns the answer's JSON. All fields are empty if
    the caller can see no answer.
    """

    __slots__ = ("_answer", "_encode", "as_of", "quote", "rest", "source")

    def __init__(
        self, source: DataSource | None, as_of: str | None, rest: object, quote: bytes, encode: Callable[[], bytes]
    ) -> None:  # fmt: skip
        self.source: DataSource | None = source
        self.as_of, self.rest, self.quote, self._encode = as_of, rest, quote, encode
        self._answer: bytes | None = None

    @property
    def answer(self) -> bytes:
        """Return the answer's JSON. Safe from any thread."""
        answer = self._answer
        if answer is None:
            answer = self._answer = self._encode()
        return answer

    @property
    def levels(self) -> bytes:
        """Return the event with the whole answer."""
        return event("levels", self.answer)


NO_EVENTS = SymbolEvents(None, None, b"", b"", bytes)


def live_events(view: SessionView, live: LiveView, before: SymbolEvents | None) -> SymbolEvents:
    """Return the events of an open session; `before`, the events before these, if they have not changed.

    The answer is encoded at once if more than the price has changed, because every reader then receives it.
    """
    quote = Quote(
        symbol=view.product.root, last_price=number(live.last_ticks * view.product.tick_e9),
        updated_at=iso_timestamp(live.last_ns),
    )  # fmt: skip
    rest = (
        view.source, live.opening, live.bias.bias, developing(live.profile, view.product.tick_e9), live.overnight,
        live.levels, live.scenarios,
    )  # fmt: skip
    events = SymbolEvents(
        view.source, None, rest, event("quote", msgspec.json.encode(quote)),
        lambda: msgspec.json.encode(levels_answer(view)),
    )  # fmt: skip
    if before is None or before.rest != rest:
        _ = events.answer
        return events
    events.rest = before.rest  # the same object is compared faster
    return before if before.quote == events.quote else events


def delayed_events(found: LevelsAnswer) -> SymbolEvents:
    """Return the events of a completed session."""
    answer = msgspec.json.encode(found)
    digest = blake2b(answer, digest_size=16).digest()
    return SymbolEvents(found.data_source, found.as_of, digest, b"", lambda: answer)


def source_of(row: AlertRow) -> LiveSource:
    """Return the source name of an alert's feed: `shared` for the operator's, else `personal`."""
    return "shared" if row.owner == OPERATOR else "personal"


def alert_event(row: AlertRow) -> bytes:
    """Return the event of an alert. Its id is the alert's `seq`, from which a reconnecting client continues."""
    return event("alert", msgspec.json.encode(entry(row, source_of(row))), row.seq)


@dataclass(frozen=True, slots=True)
class RequestedSymbol:
    """A symbol that a reader of the event stream requested, with its product and the contract if it names one."""

    symbol: str
    root: str
    contract: Contract | None


class AlertFilter:
    """Selects the alerts for a reader: those of the requested symbols (None: all) that the reader may see."""

    def __init__(self, universe: Universe, scope: Scope, requested: Sequence[RequestedSymbol] | None) -> None:
        self._universe, self._scope = universe, scope
        self._requested = None if requested is None else {each.root: each for each in requested}

    def __call__(self, row: AlertRow) -> bool:
        """Return whether the reader receives an alert."""
        try:
            contract = self._universe.contract(row.contract)
        except UnknownName:  # no longer in the universe
            return False
        if live_source(self._scope, StreamKey(row.owner, row.feed, contract)) is None:
            return False
        if self._requested is None:
            return True
        requested = self._requested.get(contract.root)
        return requested is not None and symbol_matches(
            self._universe, requested.symbol, requested.contract, contract, row.trade_date
        )


@dataclass(frozen=True, slots=True)
class MissedAlerts:
    """Alerts recorded since a given number (`seq`), oldest first.

    `whole` is False if there were too many. `checked_seq` is the `seq` up to which all alerts were checked.
    """

    rows: Sequence[AlertRow]
    whole: bool
    checked_seq: int


class AlertTail:
    """Alerts in order of commit: recent ones from the registry (in memory), older ones from the database.

    Calls may block.
    """

    def __init__(self, registry: Registry, store: LiveStore | None) -> None:
        self._registry, self._store = registry, store
        self._today: dict[tuple[StreamKey, ...], tuple[int, list[AlertRow]]] = {}

    def current(
        self, scope: Scope, wanted: AlertFilter, upto: int | None = None
    ) -> tuple[list[AlertRow], int]:
        """Return the alerts of the current trade date with a `seq` up to `upto`, newest first, and `upto`.

        If `upto` is not given, it is the newest alert's `seq`.
        """
        # Read before the alerts: later ones are sent later.
        upto = self._registry.alert_seq if upto is None else upto
        channels = [seen.channel for seen in self._registry.channels(scope)]
        names, version = tuple(c.key for c in channels), self._registry.version
        cached = self._today.get(names)
        if cached is None or cached[0] != version:
            if len(self._today) >= _MOST_TODAY:
                self._today.clear()
            cached = self._today[names] = (version, self._registry.alerts_of(channels))
        return [row for row in cached[1] if row.seq <= upto and wanted(row)], upto

    def after(self, scope: Scope, wanted: AlertFilter, seq: int) -> MissedAlerts | None:
        """Return the alerts with a number above `seq`; None if this service never assigned that number."""
        newest = self._registry.alert_seq
        if seq > newest and self._store is not None:
            newest = self._store.last_seq()
        if seq > newest:
            return None
        rows, reaches = self._registry.alerts_after(seq)
        if not reaches or (rows[0].seq if rows else newest + 1) > seq + 1:
            return self._stored(scope, wanted, seq, newest, rows)
        found = [row for row in rows if wanted(row)]
        return MissedAlerts(
            found[-MAX_MISSED:], len(found) <= MAX_MISSED, max(newest, rows[-1].seq if rows else 0)
        )

    def _stored(
        self, scope: Scope, wanted: AlertFilter, seq: int, newest: int, rows: Sequence[AlertRow]
    ) -> MissedAlerts:
        if self._store is None:
            return MissedAlerts(
                [row for row in rows if wanted(row)][-MAX_MISSED:], whole=False, checked_seq=newest
            )
        owners = [scope.user_id, OPERATOR]
        found: list[AlertRow] = []
        before: int | None = newest + 1
        while before is not None and len(found) <= MAX_MISSED:
            page = self._store.alerts(
                owners, after_seq=seq, before_seq=before, limit=MAX_MISSED, newest_first=True
            )
            found += [row for row in page if wanted(row)]
            before = page[-1].seq if len(page) == MAX_MISSED else None
        return MissedAlerts(found[:MAX_MISSED][::-1], len(found) <= MAX_MISSED, newest)
