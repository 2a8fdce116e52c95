"""What an event stream says: the bytes of its events, and the alerts a reader has not been told of yet.

Rules kept: an event is encoded once, however many read it; a reader is told of an alert only if its scope sees the
feed it came from, judged row by row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from outcry.access.licences import OPERATOR, Scope
from outcry.answers.alerts import entry, symbol_matches
from outcry.live.model import AlertRow, LiveStore, StreamKey
from outcry.live.registry import LiveSource, Registry, live_source
from outcry.market.instruments import Contract, Universe, UnknownName
from outcry.wire.answers import DataSource, LevelsAnswer
from outcry.wire.stream import Quote, State

#: Alerts a reader that comes back is told of, at most; of more, the newest.
MAX_MISSED = 1000

#: Lists of today's alerts kept, one for all who see the same feeds.
_MOST_TODAY = 256

#: A live answer as bytes: (version of the channel, JSON, last price, `updatedAt`).
LiveBytes = tuple[int, bytes, float, str]


def event(name: str, data: bytes, seq: int | None = None) -> bytes:
    """One server-sent event; `data` is JSON without line ends."""
    mark = b"" if seq is None else b"id: %d\n" % seq
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), mark, data)


def state_event(state: State) -> bytes:
    """A symbol's feed has changed, or why it has none."""
    return event("state", msgspec.json.encode(state))


@dataclass(frozen=True, slots=True)
class SymbolEvents:
    """What a symbol says. `rest`: a digest of all but what follows from the last price alone; `quote`: the event of a
    live answer that only its price told apart. Without an answer (nothing is licensed) all are empty."""

    source: DataSource | None
    as_of: str | None
    answer: bytes
    rest: bytes
    levels: bytes
    quote: bytes


NO_EVENTS = SymbolEvents(None, None, b"", b"", b"", b"")


def live_events(found: LiveBytes, source: LiveSource) -> SymbolEvents:
    """Turn a live answer into its events."""
    _, answer, last_price, updated_at = found
    whole: dict[str, Any] = msgspec.json.decode(answer)
    quote = Quote(symbol=whole["symbol"], last_price=last_price, updated_at=updated_at)
    del whole["lastPrice"], whole["updatedAt"]
    for line in (whole["playbook"] or {}).get("levels", ()):
        del line["side"], line["distanceTicks"]
    return SymbolEvents(
        source, None, answer, _digest(msgspec.json.encode(whole)), event("levels", answer),
        event("quote", msgspec.json.encode(quote)),
    )  # fmt: skip


def delayed_events(found: LevelsAnswer) -> SymbolEvents:
    """Turn the answer of a completed session into its event."""
    answer = msgspec.json.encode(found)
    return SymbolEvents(found.data_source, found.as_of, answer, _digest(answer), event("levels", answer), b"")


def source_of(row: AlertRow) -> LiveSource:
    """What whoever sees an alert calls its feed: the operator's is shared, any other their own."""
    return "shared" if row.owner == OPERATOR else "personal"


def alert_event(row: AlertRow) -> bytes:
    """An alert as it is told; its `seq` is where a reader that comes back goes on."""
    return event("alert", msgspec.json.encode(entry(row, source_of(row))), row.seq)


@dataclass(frozen=True, slots=True)
class RequestedSymbol:
    """A symbol a reader asked for, and what it means: a product, and a contract if one was named."""

    symbol: str
    root: str
    contract: Contract | None


class AlertFilter:
    """The alerts a reader is told of: of what it asked for (None: everything) and its scope sees, row by row."""

    def __init__(self, universe: Universe, scope: Scope, asked: Sequence[RequestedSymbol] | None) -> None:
        self._universe, self._scope = universe, scope
        self._asked = None if asked is None else {each.root: each for each in asked}

    def __call__(self, row: AlertRow) -> bool:
        """Whether this is one of them."""
        try:
            contract = self._universe.contract(row.contract)
        except UnknownName:  # no longer in the universe
            return False
        if live_source(self._scope, StreamKey(row.owner, row.feed, contract)) is None:
            return False
        if self._asked is None:
            return True
        asked = self._asked.get(contract.root)
        return asked is not None and symbol_matches(
            self._universe, asked.symbol, asked.contract, contract, row.trade_date
        )


@dataclass(frozen=True, slots=True)
class MissedAlerts:
    """Alerts recorded since, oldest first; `whole` unless there were too many; `known`: nothing up to it is left."""

    rows: Sequence[AlertRow]
    whole: bool
    known: int


class AlertTail:
    """Alerts in order of commit, from the registry while it has them, else from the store. Calls may block."""

    def __init__(self, registry: Registry, store: LiveStore | None) -> None:
        self._registry, self._store = registry, store
        self._today: dict[tuple[StreamKey, ...], tuple[int, list[AlertRow]]] = {}

    def current(
        self, scope: Scope, wanted: AlertFilter, upto: int | None = None
    ) -> tuple[list[AlertRow], int]:
        """Alerts of the trade date now, newest first, none after `upto`, and the newest alert's `seq` if that is not
        given."""
        upto = (
            self._registry.alert_seq if upto is None else upto
        )  # before looking: what comes meanwhile is told later
        channels = [seen.channel for seen in self._registry.channels(scope)]
        names, moved = tuple(c.key for c in channels), self._registry.alert_seq + self._registry.generation
        held = self._today.get(names)
        if held is None or held[0] != moved:
            if len(self._today) >= _MOST_TODAY:
                self._today.clear()
            held = self._today[names] = (moved, self._registry.alerts_of(channels))
        return [row for row in held[1] if row.seq <= upto and wanted(row)], upto

    def after(self, scope: Scope, wanted: AlertFilter, seq: int) -> MissedAlerts | None:
        """Alerts since that one; None where it is not of this service: nothing so new was recorded."""
        known = self._registry.alert_seq
        if seq > known and self._store is not None:
            known = self._store.last_seq()
        if seq > known:
            return None
        rows, reaches = self._registry.alerts_after(seq)
        if not reaches or (rows[0].seq if rows else known + 1) > seq + 1:
            return self._stored(scope, wanted, seq, known, rows)
        found = [row for row in rows if wanted(row)]
        return MissedAlerts(
            found[-MAX_MISSED:], len(found) <= MAX_MISSED, max(known, rows[-1].seq if rows else 0)
        )

    def _stored(
        self, scope: Scope, wanted: AlertFilter, seq: int, known: int, rows: Sequence[AlertRow]
    ) -> MissedAlerts:
        if self._store is None:
            return MissedAlerts([row for row in rows if wanted(row)][-MAX_MISSED:], whole=False, known=known)
        owners = [scope.user_id, OPERATOR]
        found: list[AlertRow] = []
        before: int | None = known + 1
        while before is not None and len(found) <= MAX_MISSED:
            page = self._store.alerts(
                owners, after_seq=seq, before_seq=before, limit=MAX_MISSED, newest_first=True
            )
            found += [row for row in page if wanted(row)]
            before = page[-1].seq if len(page) == MAX_MISSED else None
        return MissedAlerts(found[:MAX_MISSED][::-1], len(found) <= MAX_MISSED, known)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
