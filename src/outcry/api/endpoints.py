"""The read endpoints as a table: path, parameters, answer type, and the query to run.

Each endpoint is one row. Routing, the cache and the OpenAPI document all read this table.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import cast

from outcry.access.licences import Scope
from outcry.answers.alerts import DEFAULT_LISTED, MAX_LISTED
from outcry.answers.charting import DEFAULT_SESSIONS, MAX_SESSIONS
from outcry.answers.live_answers import QueryResult
from outcry.answers.matching import GivenPrices
from outcry.answers.profile_request import ProfileRequest
from outcry.answers.query import Query
from outcry.api.parameters import (
    LARGEST_NUMBER,
    any_symbol_of,
    choice_of,
    date_of,
    edge_of,
    instant_of,
    instants_of,
    method_of,
    number_of,
    price_of,
    required_date_of,
    required_price_of,
    spans_of,
    symbol_of,
)
from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.methods import DALTON, PRESETS
from outcry.market.profile_settings import BRACKET_CHOICES, MAX_ROW_TICKS, SESSION_KINDS
from outcry.wire.alerts import AlertsAnswer, AlertsHistoryAnswer
from outcry.wire.answers import (
    Answer,
    ContextAnswer,
    HistoryAnswer,
    LevelsAnswer,
    SymbolsAnswer,
)
from outcry.wire.chart import ChartAnswer
from outcry.wire.match import MatchAnswer
from outcry.wire.presets import PresetsAnswer
from outcry.wire.profile import Hours, Period, ProfileAnswer

Ask = Callable[[Query, Scope, int], QueryResult[Answer]]
Terms = tuple[Hashable, ...]
#: The terms that identify an answer in the cache, and the query to run.
Prepared = tuple[Terms, Ask]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter of an endpoint, as documented.

    `kind`: `symbol`, `any` (a symbol that may be unknown), `date`, `instant`, `edge` (a date or an instant), `spans` (a
    list of dates and of ranges between edges), `instants`, `number`, `price`, `choice` or `method` (a preset, or a name
    that a user's own preset can have). `least`, `most`: bounds of a number, inclusive. `choices`: the values of a
    choice, all text or all numbers.
    """

    name: str
    kind: str
    text: str
    required: bool = False
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] | tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One read endpoint.

    `prepare` checks the parameters. It returns the query to run, and the key under which the cache stores the answer.
    `tag`: the endpoint's group in the OpenAPI document.
    """

    path: str
    operation: str
    summary: str
    answer: type[Answer]
    parameters: tuple[Parameter, ...]
    errors: tuple[str, ...]
    prepare: Callable[[Mapping[str, str]], Prepared]
    tag: str


def _levels(given: Mapping[str, str]) -> Prepared:
    symbol = symbol_of(given)
    return (symbol,), lambda query, scope, now_ns: query.levels(scope, symbol, now_ns)


def _symbols(_given: Mapping[str, str]) -> Prepared:
    return (), lambda query, scope, now_ns: query.symbols(scope, now_ns)


def _profile(given: Mapping[str, str]) -> Prepared:
    symbol, day = symbol_of(given), date_of(given, "date")
    request = ProfileRequest(
        date=day,
        first=edge_of(given, FROM.name),
        last=edge_of(given, TO.name),
        period=cast("Period | None", choice_of(given, PERIOD.name, PERIOD.choices)),
        hours=cast("Hours", choice_of(given, HOURS.name, HOURS.choices) or "rth"),
        bracket_minutes=int(choice_of(given, BRACKET.name, BRACKET.choices) or BRACKET_MINUTES),
        row_ticks=number_of(given, ROW.name, ROW.least, ROW.most) or 1,
        method=method_of(given, METHOD.name) or DALTON.name,
        delta=choice_of(given, DELTA.name, DELTA.choices) == "1",
        anchor_ns=instant_of(given, ANCHOR.name),
        sessions=spans_of(given, LIST.name),
        split=instants_of(given, SPLIT.name),
    )
    if request.method not in PRESETS:
        named = " ".join(each.name for each in (HOURS, BRACKET, ROW) if given.get(each.name))
        request = replace(request, named=named)
    if request == ProfileRequest(date=day):
        return (symbol, day), lambda query, scope, now_ns: query.profile(scope, symbol, day, now_ns)
    return (symbol, *astuple(request)), lambda query, scope, now_ns: query.chosen_profile(
        scope, symbol, request, now_ns
    )


def _history(given: Mapping[str, str]) -> Prepared:
    symbol, first, last = symbol_of(given), date_of(given, "from"), date_of(given, "to")
    return (symbol, first, last), lambda query, scope, now_ns: query.history(
        scope, symbol, first, last, now_ns
    )


def _chart(given: Mapping[str, str]) -> Prepared:
    symbol, sessions = symbol_of(given), number_of(given, SESSIONS.name, SESSIONS.least, SESSIONS.most)
    return (symbol, sessions), lambda query, scope, now_ns: query.chart(scope, symbol, sessions, now_ns)


def _match(given: Mapping[str, str]) -> Prepared:
    symbol, day = symbol_of(given), required_date_of(given, "date")
    poc, vah, val = (required_price_of(given, name) for name in ("poc", "vah", "val"))
    prices = GivenPrices(poc, vah, val, price_of(given, "vpoc"))
    terms = (symbol, day, prices.poc_e9, prices.vah_e9, prices.val_e9, prices.vpoc_e9)
    return terms, lambda query, scope, now_ns: query.match(scope, symbol, day, prices, now_ns)


def _presets(_given: Mapping[str, str]) -> Prepared:
    return (), lambda query, scope, now_ns: query.presets(scope, now_ns)


def _context(given: Mapping[str, str]) -> Prepared:
    symbol = symbol_of(given)
    return (symbol,), lambda query, scope, now_ns: query.context(scope, symbol, now_ns)


def _alerts(given: Mapping[str, str]) -> Prepared:
    symbol = any_symbol_of(given)
    return (symbol,), lambda query, scope, now_ns: query.alerts(scope, symbol, now_ns)


def _alerts_history(given: Mapping[str, str]) -> Prepared:
    symbol = any_symbol_of(given)
    first, last = (date_of(given, name, may_be_empty=False) for name in ("from", "to"))
    before, after, limit = (number_of(given, p.name, p.least, p.most) for p in (BEFORE, AFTER, LIMIT))
    terms = (symbol, first, last, before, after, limit)
    return terms, lambda query, scope, now_ns: query.alerts_history(
        scope, symbol, first, last, before, after, limit, now_ns
    )


SYMBOL = Parameter(
    "symbol",
    "symbol",
    "Display ticker (`ES`), contract key (`ESZ6`), micro (`MES`), or another platform's symbol. Case-insensitive.",
    required=True,
)
ANY_SYMBOL = Parameter(
    "symbol",
    "any",
    "Only alerts of this symbol, in any supported symbol format. An unknown symbol gives an empty list.",
)
BEFORE = Parameter(
    "before", "number", "Only alerts recorded before the alert with this `seq`.", most=LARGEST_NUMBER
)
AFTER = Parameter(
    "after", "number", "Only alerts recorded after the alert with this `seq`.", most=LARGEST_NUMBER
)
LIMIT = Parameter(
    "limit", "number", f"Maximum number of alerts; default {DEFAULT_LISTED}.", least=1, most=MAX_LISTED
)
SESSIONS = Parameter(
    "sessions",
    "number",
    f"Maximum number of sessions; default {DEFAULT_SESSIONS}.",
    least=1,
    most=MAX_SESSIONS,
)
HOURS = Parameter(
    "session",
    "choice",
    "Hours of each day: `rth` (regular hours, the default), `overnight` (the session before them) or `full` (both).",
    choices=tuple(SESSION_KINDS),
)
PERIOD = Parameter(
    "period",
    "choice",
    "Calendar period that contains `date` (default: the newest session), as one profile.",
    choices=("day", "week", "month", "quarter"),
)
BRACKET = Parameter(
    "bracket",
    "choice",
    "Minutes of a bracket (TPO); default 30.",
    choices=BRACKET_CHOICES,
)
ROW = Parameter("row", "number", "Ticks of a row; default 1.", least=1, most=MAX_ROW_TICKS)
METHOD = Parameter(
    "method",
    "method",
    "Preset by which POC and value area are computed, or the name of a setting that you saved; default `dalton`. "
    "`/api/presets` lists both. A saved setting also has hours, bracket and row; other parameters replace them.",
)
DELTA = Parameter("delta", "choice", "1: add the volume delta at each row.", choices=(0, 1))
ANCHOR = Parameter(
    "anchor", "instant", "Add a VWAP of the trades since this time (ISO 8601 with an offset or Z)."
)
FROM = Parameter(
    "from", "edge", "First trade date, or the time (ISO 8601 with an offset or Z) from which on trades count."
)
TO = Parameter("to", "edge", "Last trade date, inclusive, or the time before which trades count.")
LIST = Parameter(
    "sessions",
    "spans",
    "Sessions to merge, separated by commas: trade dates, and ranges `first/last` with the rules of `from` and `to`.",
)
SPLIT = Parameter(
    "split",
    "instants",
    "Times, separated by commas, at which the profile is split: the answer adds the profile of each part.",
)
_DATES = (
    Parameter("from", "date", "First trade date, inclusive."),
    Parameter("to", "date", "Last trade date, inclusive."),
)
_BY_SYMBOL = ("missing_symbol", "invalid_parameter", "unknown_symbol", "no_licensed_source")

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "/api/levels",
        "getLevels",
        "Get the key levels of one symbol.",
        LevelsAnswer,
        (SYMBOL,),
        _BY_SYMBOL,
        _levels,
        "Levels",
    ),
    Endpoint(
        "/api/alerts",
        "getAlerts",
        "List the market-structure alerts of the current trade date, newest first.",
        AlertsAnswer,
        (ANY_SYMBOL,),
        (),
        _alerts,
        "Alerts",
    ),
    Endpoint(
        "/api/alerts/history",
        "getAlertsHistory",
        "List current and past alerts with all their details, newest first.",
        AlertsHistoryAnswer,
        (ANY_SYMBOL, *_DATES, BEFORE, AFTER, LIMIT),
        (),
        _alerts_history,
        "Alerts",
    ),
    Endpoint(
        "/api/symbols",
        "getSymbols",
        "List the products of the scan universe and the data this key can see.",
        SymbolsAnswer,
        (),
        (),
        _symbols,
        "Symbols",
    ),
    Endpoint(
        "/api/profile",
        "getProfile",
        "Get the profile of a session, a range of trade dates or a calendar period, highest price first. Default: the "
        "open session if it is live, otherwise the last completed regular session.",
        ProfileAnswer,
        (
            SYMBOL,
            Parameter("date", "date", "Trade date of a session."),
            FROM,
            TO,
            HOURS,
            PERIOD,
            BRACKET,
            ROW,
            METHOD,
            DELTA,
            ANCHOR,
            LIST,
            SPLIT,
        ),
        (*_BY_SYMBOL, "not_found"),
        _profile,
        "Profiles",
    ),
    Endpoint(
        "/api/history",
        "getHistory",
        "List the levels of completed regular sessions between two trade dates, oldest first.",
        HistoryAnswer,
        (SYMBOL, *_DATES),
        (*_BY_SYMBOL, "not_found"),
        _history,
        "Profiles",
    ),
    Endpoint(
        "/api/chart",
        "getChart",
        "Get the data of a market profile chart: the newest sessions, and the open session if it is live.",
        ChartAnswer,
        (SYMBOL, SESSIONS),
        _BY_SYMBOL,
        _chart,
        "Profiles",
    ),
    Endpoint(
        "/api/match",
        "matchSettings",
        "Find the settings of a profile that reproduce the levels of another platform, nearest first. One search runs "
        "at a time; others are refused with 429.",
        MatchAnswer,
        (
            SYMBOL,
            Parameter("date", "date", "Trade date of a completed regular session.", required=True),
            Parameter("poc", "price", "Point of control that your platform shows.", required=True),
            Parameter("vah", "price", "Value area high that your platform shows.", required=True),
            Parameter("val", "price", "Value area low that your platform shows.", required=True),
            Parameter("vpoc", "price", "Volume POC that your platform shows beside a TPO profile."),
        ),
        (*_BY_SYMBOL, "not_found"),
        _match,
        "Profiles",
    ),
    Endpoint(
        "/api/presets",
        "getPresets",
        "List the settings that `method` of a profile can name: the service's presets, then those that you saved.",
        PresetsAnswer,
        (),
        (),
        _presets,
        "Profiles",
    ),
    Endpoint(
        "/api/context",
        "getContext",
        "Get the details behind a levels answer: contract, method, data quality and context.",
        ContextAnswer,
        (SYMBOL,),
        _BY_SYMBOL,
        _context,
        "Levels",
    ),
)

ENDPOINTS_BY_PATH: Mapping[str, Endpoint] = {endpoint.path: endpoint for endpoint in ENDPOINTS}
