"""What the endpoints ask of the query service.

Rule kept: the endpoints hand over text as it came and the caller's scope, and translate nothing but the form.
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
    """Answers questions from live feeds and the store. May block for milliseconds; raises `ServiceError` and
    `StoreBusy`."""

    #: The store's revision as the application has just read it; None where it is not known.
    revision_seen: Callable[[], int | None]
    #: Whether the disk of the store hangs.
    frozen: Callable[[], bool]

    def revision(self) -> int:
        """The store's revision: while it stays, so do answers that do not go stale by themselves."""
        ...

    def watch(self, scope: Scope, symbol: str, now_ns: int) -> SymbolStatus:
        """What a symbol means, and which channel answers it live."""
        ...

    def levels(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[LevelsAnswer]:
        """Key levels of one symbol."""
        ...

    def symbols(self, scope: Scope, now_ns: int) -> QueryResult[SymbolsAnswer]:
        """The scan universe."""
        ...

    def profile(self, scope: Scope, symbol: str, date: str | None, now_ns: int) -> QueryResult[ProfileAnswer]:
        """The rows of one completed session."""
        ...

    def history(
        self, scope: Scope, symbol: str, from_: str | None, to: str | None, now_ns: int
    ) -> QueryResult[HistoryAnswer]:
        """The levels of past sessions."""
        ...

    def chart(self, scope: Scope, symbol: str, sessions: int | None, now_ns: int) -> QueryResult[ChartAnswer]:
        """What a market profile chart is drawn from."""
        ...

    def context(self, scope: Scope, symbol: str, now_ns: int) -> QueryResult[ContextAnswer]:
        """Everything behind a levels answer."""
        ...

    def alerts(self, scope: Scope, symbol: str | None, now_ns: int) -> QueryResult[AlertsAnswer]:
        """Alerts of the current trade date."""
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
        """Alerts of past and present."""
        ...
