"""The read endpoints as a table: path, parameters, answer, and the one question each puts to the query
service.

Rule kept: an endpoint is a row here; routing, the cache and the OpenAPI document all read this table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outcry.accounts.licences import Scope
from outcry.api.parameters import date_of, symbol_of
from outcry.api.query import Found, Query
from outcry.services.answers import (
    Answer,
    ContextAnswer,
    HistoryAnswer,
    LevelsAnswer,
    ProfileAnswer,
    SymbolsAnswer,
)

Ask = Callable[[Query, Scope, int], Found[Answer]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter as documented. `kind`: `symbol` or `date`."""

    name: str
    kind: str
    text: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path. `prepare` checks the parameters and returns (what tells answers apart, the question)."""

    path: str
    operation: str
    summary: str
    answer: type[Answer]
    parameters: tuple[Parameter, ...]
    errors: tuple[str, ...]
    prepare: Callable[[Mapping[str, str]], tuple[tuple[str | None, ...], Ask]]

    @property
    def names(self) -> frozenset[str]:
        """The names of its parameters."""
        return frozenset(parameter.name for parameter in self.parameters)


def _levels(given: Mapping[str, str]) -> tuple[tuple[str | None, ...], Ask]:
    symbol = symbol_of(given)
    return (symbol,), lambda query, scope, now_ns: query.levels(scope, symbol, now_ns)


def _symbols(_given: Mapping[str, str]) -> tuple[tuple[str | None, ...], Ask]:
    return (), lambda query, scope, now_ns: query.symbols(scope, now_ns)


def _profile(given: Mapping[str, str]) -> tuple[tuple[str | None, ...], Ask]:
    symbol, day = symbol_of(given), date_of(given, "date")
    return (symbol, day), lambda query, scope, now_ns: query.profile(scope, symbol, day, now_ns)


def _history(given: Mapping[str, str]) -> tuple[tuple[str | None, ...], Ask]:
    symbol, first, last = symbol_of(given), date_of(given, "from"), date_of(given, "to")
    return (symbol, first, last), lambda query, scope, now_ns: query.history(
        scope, symbol, first, last, now_ns
    )


def _context(given: Mapping[str, str]) -> tuple[tuple[str | None, ...], Ask]:
    symbol = symbol_of(given)
    return (symbol,), lambda query, scope, now_ns: query.context(scope, symbol, now_ns)


SYMBOL = Parameter(
    "symbol",
    "symbol",
    "Display ticker (`ES`), raw contract key (`ESZ6`), micro (`MES`), another platform's spelling. Any case.",
    required=True,
)
_BY_SYMBOL = ("missing_symbol", "invalid_parameter", "unknown_symbol", "no_licensed_source")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "/api/levels", "getLevels", "Key levels for one symbol.", LevelsAnswer, (SYMBOL,), _BY_SYMBOL, _levels
    ),
    Endpoint(
        "/api/symbols",
        "getSymbols",
        "The scan universe and what this key may see of it.",
        SymbolsAnswer,
        (),
        (),
        _symbols,
    ),
    Endpoint(
        "/api/profile",
        "getProfile",
        "The rows of one completed regular session, high to low.",
        ProfileAnswer,
        (SYMBOL, Parameter("date", "date", "Trade date of the session; the newest completed one if absent.")),
        (*_BY_SYMBOL, "not_found"),
        _profile,
    ),
    Endpoint(
        "/api/history",
        "getHistory",
        "The levels of completed regular sessions between two trade dates, both included, oldest first.",
        HistoryAnswer,
        (
            SYMBOL,
            Parameter("from", "date", "First trade date."),
            Parameter("to", "date", "Last trade date."),
        ),
        (*_BY_SYMBOL, "not_found"),
        _history,
    ),
    Endpoint(
        "/api/context",
        "getContext",
        "Everything behind a levels answer: contract, method, data quality, context.",
        ContextAnswer,
        (SYMBOL,),
        _BY_SYMBOL,
        _context,
    ),
)
