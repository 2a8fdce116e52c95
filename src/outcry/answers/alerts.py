"""Answers about alerts: current ones from live streams in memory, past ones from the database.

An alert is visible to every caller who may see its live stream now. A query for an unknown symbol finds no alerts and
is no error. The list of current alerts is at most a second old.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import cast

from outcry.access.licences import OPERATOR, Scope
from outcry.answers.live_answers import LiveAnswer, QueryResult
from outcry.answers.selection import symbol_matches, utc_date
from outcry.answers.wording import message
from outcry.base.errors import InvalidParameter
from outcry.base.timestamps import iso_timestamp
from outcry.live.model import PRICE_PARAMS, AlertRow, StreamKey
from outcry.live.registry import Channel, LiveSource, Registry, live_source
from outcry.live.store import LiveStore
from outcry.market.instruments import Resolution, Universe, UnknownName
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.wire.alerts import Alert, AlertEntry, AlertsAnswer, AlertsHistoryAnswer, ParamValue
from outcry.wire.answers import number

MAX_LISTED = 500
DEFAULT_LISTED = 100
_PAGE = 1000
#: Pages of the store read for one answer; the rest is on the next page.
_MOST_PAGES = 20
_MAX_CACHED = 1024
_MAX_AGE_NS = NANOS_PER_SECOND


def alert(row: AlertRow) -> Alert:
    """Convert an alert's database row to the short form of the API."""
    return Alert(
        symbol=row.symbol, type=row.type.value, severity=row.severity, price=number(row.price_e9), ref=row.ref,
        message=message(row),
    )  # fmt: skip


def params(found: Mapping[str, object]) -> dict[str, ParamValue]:
    """Return the parameters of an alert with prices as JSON numbers."""
    return {
        name: number(value) if name in PRICE_PARAMS and isinstance(value, int) else cast("ParamValue", value)
        for name, value in found.items()
    }


def entry(row: AlertRow, source: LiveSource) -> AlertEntry:
    """Convert an alert's database row to the API's form with all details."""
    return AlertEntry(
        symbol=row.symbol, type=row.type.value, severity=row.severity, price=number(row.price_e9), ref=row.ref,
        message=message(row), key=row.key, seq=row.seq, at=iso_timestamp(row.at_ns), session=row.session.value,
        contract=row.contract, trade_date=str(row.trade_date), data_source=source, invented=row.invented,
        params=params(row.params),
        recorded_at=None if row.recorded_ns is None else iso_timestamp(row.recorded_ns),
    )  # fmt: skip


class AlertAnswers:
    """Answers queries for alerts. Thread-safe. `store` is None if no alerts are stored."""

    def __init__(self, registry: Registry, universe: Universe, store: LiveStore | None) -> None:
        self._registry, self._universe, self._store = registry, universe, store
        self._live_answers: OrderedDict[tuple[StreamKey, ...], LiveAnswer[AlertsAnswer]] = OrderedDict()
        self._generation = -1
        self._lock = threading.Lock()

    def current(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[AlertsAnswer]:
        """Answer `GET /api/alerts`: the alerts of the current trade date of each visible feed."""
        # Read before the channels, because the cache is valid for this generation.
        generation = self._registry.generation
        live_answer = self._of(self._channels(scope, symbol, now_ns), generation)
        made = live_answer.render(now_ns)
        if made is None:
            raise RuntimeError("there is always a list, if only an empty one")
        return QueryResult(made.answer, (now_ns // NANOS_PER_DAY + 1) * NANOS_PER_DAY, live_answer)

    def history(
        self, scope: Scope, symbol: str | None, from_: str | None, to: str | None, before: int | None,
        after: int | None, limit: int | None, now_ns: int,
    ) -> QueryResult[AlertsHistoryAnswer]:  # fmt: skip
        """Answer `GET /api/alerts/history`.

        Returns alerts of trade dates `from_` to `to`, both inclusive, with a number (`seq`) between `after` and
        `before`.
        """
        wanted = min(limit or DEFAULT_LISTED, MAX_LISTED)
        first, last = _day(from_, "from"), _day(to, "to")
        meant = self._resolve(symbol, now_ns) if symbol else None
        found: list[AlertEntry] = []
        next_before = before
        if self._store is not None and (meant is not None or not symbol):
            root = meant.product.root if meant else None
            for _ in range(_MOST_PAGES):
                rows = self._store.alerts(
                    _live_owners(scope), after_seq=after or 0, symbol=root, first=first, last=last,
                    before_seq=next_before, limit=_PAGE, newest_first=True,
                )  # fmt: skip
                for row in rows:
                    next_before = row.seq
                    source = self._shown(scope, symbol, meant, row)
                    if source is not None:
                        found.append(entry(row, source))
                        if len(found) == wanted:
                            return _page(found, next_before)
                if len(rows) < _PAGE:
                    return _page(found, None)
            return _page(found, next_before)
        return _page(found, None)

    def _shown(
        self, scope: Scope, symbol: str | None, meant: Resolution | None, row: AlertRow
    ) -> LiveSource | None:
        """Return the source of an alert if the caller may see it and asked for its symbol, else None."""
        try:
            contract = self._universe.contract(row.contract)
        except UnknownName:  # no longer in the universe
            return None
        named = meant is None or symbol_matches(
            self._universe, symbol or "", meant.contract, contract, row.trade_date
        )
        return live_source(scope, StreamKey(row.owner, row.feed, contract)) if named else None

    def _channels(self, scope: Scope, symbol: str | None, now_ns: int) -> list[Channel]:
        if not symbol:
            return [seen.channel for seen in self._registry.channels(scope)]
        meant = self._resolve(symbol, now_ns)
        if meant is None:
            return []
        found = (seen.channel for seen in self._registry.channels(scope, meant.product.root))
        return [
            channel
            for channel in found
            if symbol_matches(
                self._universe, symbol, meant.contract, channel.key.contract, channel.availability.trade_date
            )
        ]

    def _of(self, channels: Sequence[Channel], generation: int) -> LiveAnswer[AlertsAnswer]:
        """Return the list of current alerts; it is cached for all callers who see the same feeds.

        The list contains nothing specific to a caller.
        """
        names = tuple(channel.key for channel in channels)

        def make(now_ns: int) -> AlertsAnswer:
            found = [alert(row) for row in self._registry.alerts_of(channels)]
            return AlertsAnswer(updated_at=iso_timestamp(now_ns), count=len(found), alerts=found)

        with self._lock:
            if generation != self._generation:  # release removed channels
                self._live_answers.clear()
                self._generation = generation
            live_answer = self._live_answers.get(names)
            if live_answer is None:
                live_answer = self._live_answers[names] = LiveAnswer(self._registry, make, _MAX_AGE_NS)
            self._live_answers.move_to_end(names)
            while len(self._live_answers) > _MAX_CACHED:
                self._live_answers.popitem(last=False)
        return live_answer

    def _resolve(self, symbol: str, now_ns: int) -> Resolution | None:
        try:
            return self._universe.resolve(symbol, utc_date(now_ns))
        except UnknownName:
            return None


def _live_owners(scope: Scope) -> list[int]:
    """Return the owners of the streams that a caller may see. It narrows a query; each row is still checked."""
    shared = any(grant.scope == "live" for grant in scope.grants)
    return [scope.user_id, OPERATOR] if shared else [scope.user_id]


def _page(found: list[AlertEntry], next_before: int | None) -> QueryResult[AlertsHistoryAnswer]:
    answer = AlertsHistoryAnswer(count=len(found), alerts=found, next_before=next_before)
    return QueryResult(answer, 0)  # never cached: alerts do not change the store's revision


def _day(text: str | None, parameter: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as problem:
        raise InvalidParameter("invalid_parameter.date", parameter=parameter) from problem
