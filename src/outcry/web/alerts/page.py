"""The Alerts page `/alerts`: live alerts and those of past days, newest first.

The URL contains the filters. Invalid filters are not applied, and the form shows them as typed, with an error. The
script inserts new alerts as rows that are rendered by the same template as the page.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, cast, get_args
from urllib.parse import urlencode

from starlette.responses import Response

from outcry.access.licences import Scope
from outcry.answers.alert_phrases import EVENTS
from outcry.answers.charting import notation_of
from outcry.answers.selection import utc_date
from outcry.base.errors import NoLicensedSource
from outcry.market.alerts.machine import AlertType, Severity
from outcry.web.alerts.lines import AlertLine, alert_lines
from outcry.web.form_state import whole_number
from outcry.web.formatter import Clock, Formatter
from outcry.web.language import Words
from outcry.web.levels.page import LABELS, View, gather
from outcry.web.levels.scan import sorted_rows
from outcry.web.page_context import NotSignedIn, Page, PageContext, PageRequest
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import LevelsAnswer

#: Rows per page; rows read per batch and at most to fill it.
PAGE_ROWS = 100
_LOOKED_AT, _MOST_LOOKS = 500, 20
#: Lowest first.
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
TYPES: tuple[str, ...] = tuple(kind.value for kind in AlertType)


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of the alerts page as typed; empty means no filter.

    `severity` is the minimum severity. `exchange` shows exchange times besides the reader's.
    """

    symbol: str = ""
    severity: str = ""
    type: str = ""
    day: str = ""
    exchange: bool = False

    def entries(self, **more: str) -> list[tuple[str, str]]:
        """Return the filters as query parameters of a URL."""
        found = [
            ("symbol", self.symbol), ("severity", self.severity), ("type", self.type), ("day", self.day),
            ("time", "exchange" if self.exchange else ""), *more.items(),
        ]  # fmt: skip
        return [(name, value) for name, value in found if value]

    def passes(self, alert: AlertEntry) -> bool:
        """Whether an alert passes the filters. Symbol and day are filtered by the database query."""
        severe = not self.severity or (
            SEVERITIES.index(alert.severity) >= SEVERITIES.index(cast("Severity", self.severity))
        )
        return severe and self.type in {"", alert.type}

    @property
    def any(self) -> bool:
        """Whether any filter is set."""
        return bool(self.symbol or self.severity or self.type or self.day)


@dataclass(frozen=True, slots=True)
class Listed:
    """The alerts found for the page, newest first.

    `older`: the `seq` (record number) at which the next page starts, None on the last page. `newest`: the `seq` of the
    newest recorded alert, whether or not the page lists it.
    """

    alerts: Sequence[AlertEntry]
    older: int | None
    newest: int


async def alerts_page(context: PageContext, request: PageRequest) -> Response:
    """Show the page `/alerts`."""
    filters, faults = filters_of(request)
    before = whole_number(request.http.query_params.get("before", ""))
    found = Listed([], None, 0)
    if not faults:
        found = await context.ask(_listed, context, _scope(request), filters, before, None)
    lines = await context.ask(_lines, context, request, found.alerts)
    today = await context.ask(_today, context, _scope(request), filters)
    words, quiet = request.words, before is None and not filters.day and today == 0
    return context.page(
        request, "alerts.html", 422 if faults else 200, filters=filters, faults=faults, days=by_day(lines),
        count=len(lines), quiet=quiet, next=await context.ask(_next, context, request) if quiet else "",
        clock=_clock(context, request),
        types=[("", words("All")), *((kind, words(EVENTS[kind])) for kind in TYPES)],
        severities=[
            ("", words("All")), ("warn", words("Warning and above")), ("critical", words("Critical only")),
        ],
        symbols=[root for root, product in context.services.universe.products.items() if product.parent is None],
        older=f"/alerts?{urlencode(filters.entries(before=str(found.older)))}" if found.older else "",
        newer=f"/alerts?{urlencode(filters.entries())}" if before is not None else "",
        all_href="/alerts", time_href=_time_href(filters), zone=_city(request.preferences.time_zone),
        page_data=_page_data(words, filters, found, live=before is None and not filters.day and not faults),
    )  # fmt: skip


async def alert_rows(context: PageContext, request: PageRequest) -> Response:
    """Return the rows of alerts recorded after a `seq`, for the page's script.

    Also return the newest `seq` and the link to older rows.
    """
    filters, faults = filters_of(request)
    query = request.http.query_params
    after, before = whole_number(query.get("after", "")) or 0, whole_number(query.get("before", ""))
    found = Listed([], None, after)
    if not faults:
        found = await context.ask(_listed, context, _scope(request), filters, before, after)
    lines = await context.ask(_lines, context, request, found.alerts)
    return context.fragment(
        request,
        "alerts_rows.html",
        filters=filters,
        days=by_day(lines),
        newest=found.newest,
        older=found.older,
        clock=_clock(context, request),
    )


def filters_of(request: PageRequest) -> tuple[Filters, dict[str, str]]:
    """Read the filters from the URL; also return the errors found, by field."""
    query, words = request.http.query_params, request.words
    filters = Filters(
        symbol=query.get("symbol", "").strip()[:64], severity=query.get("severity", "")[:64],
        type=query.get("type", "")[:64], day=query.get("day", "").strip()[:64],
        exchange=query.get("time") == "exchange",
    )  # fmt: skip
    faults: dict[str, str] = {}
    if filters.severity not in {"", *SEVERITIES}:
        faults["severity"] = words("Unknown severity.")
    if filters.type not in {"", *TYPES}:
        faults["type"] = words("Unknown alert type.")
    if filters.day and not _is_day(filters.day):
        faults["day"] = words("Enter the date as YYYY-MM-DD, for example 2026-11-20.")
    return filters, faults


def by_day(lines: Sequence[AlertLine]) -> list[tuple[str, list[AlertLine]]]:
    """Group alert rows by trade date, newest exchange time first.

    The rows are sorted, because two feeds that deliver history record alerts of the same time one after the other.
    """
    days: dict[str, list[AlertLine]] = {}
    for line in sorted(lines, key=lambda line: (line.entry.at, line.entry.seq), reverse=True):
        days.setdefault(line.entry.trade_date, []).append(line)
    return sorted(days.items(), reverse=True)


def _listed(
    context: PageContext, scope: Scope, filters: Filters, before: int | None, after: int | None
) -> Listed:
    """Read the visible alerts until a page is full."""
    query, now_ns = context.services.query, context.services.market_clock.now_ns()
    found: list[AlertEntry] = []
    newest = max(context.services.registry.alert_seq, after or 0)
    day = filters.day or None
    for _ in range(_MOST_LOOKS):
        answer = query.alerts_history(
            scope, filters.symbol or None, day, day, before, after, _LOOKED_AT, now_ns
        ).answer
        found += [alert for alert in answer.alerts if filters.passes(alert)]
        newest = max(newest, *(alert.seq for alert in answer.alerts), 0)
        before = answer.next_before
        if len(found) > PAGE_ROWS:
            return Listed(found[:PAGE_ROWS], found[PAGE_ROWS - 1].seq, newest)
        if before is None:
            break
    return Listed(found, before, newest)


def _today(context: PageContext, scope: Scope, filters: Filters) -> int:
    """Return the number of alerts of the current trade date. The filters for severity and type do not apply."""
    now_ns = context.services.market_clock.now_ns()
    return context.services.query.alerts(scope, filters.symbol or None, now_ns).answer.count


def _next(context: PageContext, request: PageRequest) -> str:
    """Return a sentence about the live symbol that is nearest to one of its levels; empty if there is none."""
    rows = sorted_rows(gather(context, request, _scope(request), View()), "nearest")
    row = next((row for row in rows if row.state.kind == "live" and row.last is not None), None)
    measured = (
        [(abs(cell.share), name) for name, cell in row.cells.items() if cell.share is not None] if row else []
    )
    if row is None or row.last is None or not measured:
        return ""
    name = min(measured)[1]
    price = row.cells[name].price or 0.0
    return request.words(
        "Closest to a level: %(symbol)s at %(last)s, %(level)s %(price)s.",
        symbol=row.symbol.symbol, last=row.text(row.last), level=LABELS[name], price=row.text(price),
    )  # fmt: skip


def _lines(context: PageContext, request: PageRequest, alerts: Sequence[AlertEntry]) -> list[AlertLine]:
    """Return alerts as rows in words, with the current price of each alert's product."""
    services, scope = context.services, _scope(request)
    now_ns = services.market_clock.now_ns()
    roots = dict.fromkeys(alert.symbol for alert in alerts)
    answers: dict[str, LevelsAnswer | None] = {}
    for root in roots:
        try:
            answers[root] = services.query.levels(scope, root, now_ns).answer
        except NoLicensedSource:
            answers[root] = None
    return alert_lines(alerts, _formatters(context, request), answers)


def _formatters(context: PageContext, request: PageRequest) -> Callable[[str], Formatter]:
    @cache
    def formatter_of(root: str) -> Formatter:
        product = context.services.universe.products[root]
        return Formatter(notation_of(product), _clock(context, request, product.zone))

    return formatter_of


def _clock(context: PageContext, request: PageRequest, zone: str = "America/New_York") -> Clock:
    year = utc_date(context.services.market_clock.now_ns()).year
    return Clock(request.words, zone, request.preferences.time_zone, year)


def _time_href(filters: Filters) -> str:
    entries = [(name, value) for name, value in filters.entries() if name != "time"]
    entries += [] if filters.exchange else [("time", "exchange")]
    return "/alerts" + (f"?{urlencode(entries)}" if entries else "")


def _page_data(words: Words, filters: Filters, found: Listed, *, live: bool) -> dict[str, Any]:
    """Return the data for the page's script. live: whether new alerts belong on this page."""
    return {
        "live": live, "newest": found.newest, "rows": f"/alerts/rows?{urlencode(filters.entries())}",
        "words": {
            "new": _forms(words.plural_forms("%(count)s new", "%(count)s new"), count="{count}"),
            "pause": words("Pause"), "resume": words("Resume"),
            "paused": words("Paused. New alerts are counted but not shown."),
            "arrived": words("New alert: %(symbol)s, %(event)s", symbol="{symbol}", event="{event}"),
            "lost": words(
                "Connection to Outcry lost. Latest alert: %(time)s.", time="{time}"
            ),
            "lost_none": words("Connection to Outcry lost. New alerts appear once it is restored."),
        },
    }  # fmt: skip


def _forms(forms: Mapping[str, str], **values: str) -> dict[str, str]:
    """Return the plural forms of a text with values filled in, for a script that inserts the number."""
    return {category: text % values for category, text in forms.items()}


def _scope(request: PageRequest) -> Scope:
    if request.scope is None:
        raise NotSignedIn
    return request.scope


def _city(zone: str) -> str:
    """Return the city in the name of a time zone: New York for `America/New_York`."""
    return zone.rpartition("/")[2].replace("_", " ")


def _is_day(text: str) -> bool:
    try:
        return str(date.fromisoformat(text)) == text
    except ValueError:
        return False


PAGES: Sequence[Page] = (
    ("/alerts", ("GET",), alerts_page),
    ("/alerts/rows", ("GET",), alert_rows),
)
