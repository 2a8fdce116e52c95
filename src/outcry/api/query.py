"""The interface between the endpoints and the query service.

The endpoints pass the parameters as received, with the caller's scope. They convert formats only.
"""

from collections.abc import Callable
from typing import Protocol

from outcry.access.licences import Scope
from outcry.answers.live_answers import QueryResult
from outcry.answers.query import SymbolStatus
from outcry.wire.alerts import AlertsAnswer, AlertsHistoryAnswer
from outcry.wire.answers import (
    ContextAnswer,
    HistoryAnswer,
    LevelsAnswer,
    ProfileAnswer,
    SymbolsAnswer,
)
from outcry.wire.chart import ChartAnswer


class Query(Protocol):
    """Interface that answers queries from live feeds and the database.

    Calls may block for milliseconds. Raises `ServiceError`, `StoreBusy`.
    """

    #: Returns the store's revision at the last poll, or None if that poll is outdated.
    revision_seen: Callable[[], int | None]
    #: Returns whether the store's disk is stalled.
    frozen: Callable[[], bool]

    def revision(self) -> int:
        """Return the database's revision. While it is unchanged, answers stay valid until they expire."""
        ...

    def watch(self, scope: Scope, symbol: str, now_ns: int) -> SymbolStatus:
        """Return the product and contract of a symbol, and its live channel, if there is one."""
        ...

    def levels(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[LevelsAnswer]:
        """Return the key levels of one symbol."""
        ...

    def symbols(self, scope: Scope, now_ns: int) -> QueryResult[SymbolsAnswer]:
        """Return the products of the scan universe."""
        ...

    def profile(self, scope: Scope, symbol: str, date: str | None, now_ns: int) -> QueryResult[ProfileAnswer]:
        """Return the profile rows of one session."""
        ...

    def history(
        self, scope: Scope, symbol: str, from_: str | None, to: str | None, now_ns: int
    ) -> QueryResult[HistoryAnswer]:
        """Return the levels of completed sessions between two trade dates, both inclusive."""
        ...

    def chart(self, scope: Scope, symbol: str, sessions: int | None, now_ns: int) -> QueryResult[ChartAnswer]:
        """Return the data of a market profile chart."""
        ...

    def context(self, scope: Scope, symbol: str, now_ns: int) -> QueryResult[ContextAnswer]:
        """Return the details behind a levels answer."""
        ...

    def alerts(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[AlertsAnswer]:
        """Return the alerts of the current trade date."""
        ...

    def alerts_history(
        self,
        scope: Scope,
        symbol: str | None,
        from_: str | None,
        to: str | None,
        before: int | None,
        after: int | None,
        limit: int | None,
        now_ns: int,
    ) -> QueryResult[AlertsHistoryAnswer]:
        """Return current and past alerts, newest first. The trade dates are inclusive; `before` and `after` are not."""
        ...
