"""One symbol: chart, levels, bias, playbook, alerts: `/s/ES`.

Rules kept: a symbol has one address, which every other spelling leads to; how it is looked at is in the address; what
changes while the page stands is made by the same templates as the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from starlette.responses import Response

from outcry.accounts.licences import Scope
from outcry.core.calendar import SessionKind
from outcry.services.alerts import AlertEntry
from outcry.services.answers import ProfileAnswer
from outcry.services.errors import InvalidParameter, NoLicensedSource, NotFound, UnknownSymbol
from outcry.web import phrases, playbook_words
from outcry.web.alert_lines import alert_lines
from outcry.web.chartview import PARTS, ROWS, SESSIONS, ChartView, view_of
from outcry.web.desk import Desk, NotSignedIn, Page, Visit
from outcry.web.figures import price_text
from outcry.web.ladder import rungs
from outcry.web.language import Words
from outcry.web.outlook import Gatherer, Outlook
from outcry.web.pen import Clock, Pen, iso, left
from outcry.web.session_table import listed_sessions, marks
from outcry.web.states import State, state_of

#: Alerts of the day beside the chart, at most.
MOST_ALERTS = 12
#: A level this near to the price, as a part of the average daily range, is marked.
NEAR = 0.05
#: What a feed of one's own, or a grant, would change.
_NEEDS_FEED = {"no_connection", "not_front", "unsubscribed"}
#: A feed that was live and has stopped: what stands still is dimmed.
_PAUSED = {"stale_link", "stale_market", "disconnected", "degraded"}


@dataclass(frozen=True, slots=True)
class Looked:
    """How the page is looked at: `view`: of the chart, `table` in its place, `date` of the session in the table (empty:
    the newest)."""

    view: ChartView
    table: bool
    date: str

    def entries(self, **changed: Any) -> list[tuple[str, str]]:
        """As entries of an address, what is usual left out."""
        wanted = replace(self, **changed)
        usual, view = ChartView(), wanted.view
        found = [
            ("layout", view.layout if view.layout != usual.layout else ""),
            ("letters", view.letters if view.letters != usual.letters else ""),
            ("row", str(view.row) if view.row else ""),
            ("sessions", str(view.sessions) if view.sessions != usual.sessions else ""),
            ("date", wanted.date),
            ("view", "table" if wanted.table else ""),
        ]
        if view.show != usual.show:
            found += [("parts", "1"), *(("show", part) for part in PARTS if part in view.show)]
        return [(name, value) for name, value in found if value]


@dataclass(frozen=True, slots=True)
class _Gathered:
    """All of a page, from one visit to the store. `follows`: what the ticker is answered now is of this contract."""

    outlook: Outlook
    profile: ProfileAnswer
    alerts: Sequence[AlertEntry]
    follows: bool


async def symbol_page(desk: Desk, visit: Visit) -> Response:
    """`/s/{symbol}`."""
    asked = visit.request.path_params["symbol"]
    found = await _found(desk, visit, asked)
    if isinstance(found, Response):
        return found
    if asked != found.outlook.symbol:
        return desk.to(visit, _path(found.outlook.symbol, visit.request.query_params.multi_items()), 302)
    return desk.page(visit, "symbol/symbol.html", **_values(desk, visit, found))


async def symbol_rail(desk: Desk, visit: Visit) -> Response:
    """What changes, for the script: head, rail and, where it is shown, the table."""
    found = await _found(desk, visit, visit.request.path_params["symbol"])
    if isinstance(found, Response):
        return found
    return desk.fragment(visit, "symbol/parts.html", **_values(desk, visit, found))


def looked_at(visit: Visit) -> Looked:
    """How an address asks for it to be looked at; what it has wrong is as if it were not there."""
    query = visit.request.query_params
    return Looked(
        view_of(query, query.getlist("show")), query.get("view") == "table", query.get("date", "")[:10]
    )


async def _found(desk: Desk, visit: Visit, asked: str) -> _Gathered | Response:
    """What there is of a symbol, or the page that says why there is nothing."""
    if visit.scope is None:
        raise NotSignedIn
    looked = looked_at(visit)
    try:
        return await desk.ask(_gather, desk, visit.scope, asked, looked)
    except UnknownSymbol as refusal:
        suggestions = refusal.details.get("suggestions", [])
        return desk.page(visit, "symbol/unknown.html", 404, symbol=asked[:64], suggestions=suggestions)
    except NoLicensedSource as refusal:
        product = desk.services.universe.products.get(str(refusal.details.get("symbol", "")))
        state = (refusal.details.get("reasons") or ["no_connection"])[0]
        return desk.page(
            visit, "symbol/nothing.html", symbol=product.root if product else asked[:64],
            name=product.name if product else "", state=state_of(visit.words, state),
        )  # fmt: skip


def _gather(desk: Desk, scope: Scope, asked: str, looked: Looked) -> _Gathered:
    services = desk.services
    now_ns = services.market_clock.now_ns()
    gatherer = Gatherer(services.query, services.universe, services.hours)
    outlook = gatherer.outlook(scope, asked, looked.view.sessions if looked.table else 2, now_ns)
    profile = outlook.profile
    if looked.table and looked.date and looked.date != outlook.session.date:
        try:
            profile = services.query.profile(scope, asked, looked.date, now_ns).answer
        except (NotFound, InvalidParameter):
            profile = outlook.profile
    day = outlook.session.date
    alerts = services.query.alerts_history(
        scope, outlook.symbol, day, day, None, None, MOST_ALERTS, now_ns
    ).answer
    front = (
        services.query.context(scope, outlook.product.root, now_ns).answer.contract if outlook.named else ""
    )
    return _Gathered(outlook, profile, alerts.alerts, front in {"", outlook.context.contract})


def _values(desk: Desk, visit: Visit, found: _Gathered) -> dict[str, Any]:
    """What the templates of the page and of its parts are filled with."""
    outlook, words, looked = found.outlook, visit.words, looked_at(visit)
    pen = pen_of(visit, outlook)
    context, symbol = outlook.context, outlook.symbol

    def age(made_on: str) -> int:
        return Gatherer(desk.services.query, desk.services.universe, desk.services.hours).age(
            outlook.product.root, made_on, outlook.session.date
        )

    place = outlook.value_place
    return {
        "outlook": outlook, "pen": pen, "symbol_tab": symbol, "invented": context.invented, "answer": outlook.chart,
        "state": _state(outlook, words, desk.services.market_clock.now_ns()),
        "paused": context.state in _PAUSED, "needs_feed": context.state in _NEEDS_FEED, "clock": _clock(outlook, pen),
        "bias": phrases.named(phrases.BIASES, context.bias, words),
        "reasons": phrases.reasons(context.bias_votes, words) if context.bias_votes else [],
        "day_type": phrases.named(phrases.DAY_TYPES, outlook.session.day_type, words),
        "open_type": phrases.named(phrases.OPEN_TYPES, outlook.session.open_type, words),
        "value_place": words(phrases.VALUE_PLACES[place]) if place else "",
        "rungs": rungs(outlook, words, age), "near_points": NEAR * (outlook.chart.average_range or 0),
        "cards": _cards(outlook, pen),
        "alerts": alert_lines(found.alerts, lambda _: pen, {outlook.product.root: outlook.levels}),
        "links": _links(outlook, looked, found.profile), "table": looked.table, "chart_view": looked.view,
        "chart_rows": [(ticks, price_text(ticks * outlook.chart.tick_size, outlook.chart.notation)) for ticks in ROWS],
        "chart_action": _path(symbol), "chart_kept": [("date", looked.date)] if looked.date else [],
        "chart_table": _path(symbol, looked.entries(table=True)), "profile": found.profile,
        "marks": marks(found.profile.levels, words), "session_counts": SESSIONS,
        "sessions": listed_sessions(outlook, words, lambda date: _path(symbol, looked.entries(table=True, date=date))),
        "table_kept": [(n, v) for n, v in looked.entries() if n not in {"sessions", "view"}],
        "page_keys": _page_keys(words, table=looked.table),
        "page_data": _page_data(outlook, visit, follows=found.follows),
    }  # fmt: skip


def pen_of(visit: Visit, outlook: Outlook) -> Pen:
    """What writes the figures of a symbol for a reader."""
    year = int(outlook.session.date[:4])
    clock = Clock(visit.words, outlook.product.zone, visit.preferences.time_zone, year)
    return Pen(outlook.chart.notation, clock)


def _state(outlook: Outlook, words: Words, now_ns: int) -> State:
    levels, hours = outlook.levels, outlook.hours
    return state_of(
        words, outlook.context.state, updated_at=levels.updated_at, as_of=levels.as_of, now_ns=now_ns,
        opens_ns=hours.opens_ns, zone=outlook.product.zone,
    )  # fmt: skip


def _cards(outlook: Outlook, pen: Pen) -> list[playbook_words.Card]:
    playbook = outlook.levels.playbook
    return playbook_words.cards(playbook.scenarios, pen.clock.words, pen.price, pen.day) if playbook else []


def _clock(outlook: Outlook, pen: Pen) -> dict[str, str | bool]:
    """What the session clock counts down to; when trading goes on where there is none; whether regular hours go on
    by the calendar, feed or not."""
    hours, now_ns = outlook.hours, outlook.at_ns
    until_ns = hours.bracket_ends_ns if outlook.live and outlook.regular else hours.regular_ns
    opens = ""
    if hours.opens_ns is not None:
        opens = pen.clock.words(
            "Closed, opens %(day)s %(time)s",
            day=pen.clock.weekday(hours.opens_ns),
            time=pen.clock.time(hours.opens_ns, seconds=False),
        )
    return {
        "until": iso(until_ns) if until_ns else "", "left": left(until_ns - now_ns) if until_ns else "",
        "opens": opens, "open_now": hours.session is not None and hours.session.kind is SessionKind.RTH,
    }  # fmt: skip


def _links(outlook: Outlook, looked: Looked, profile: ProfileAnswer) -> dict[str, str]:
    """Addresses of the other ways to look at it, and of what can be taken along."""
    path, date = _path(outlook.symbol), profile.levels.date
    known = [drawn.date for drawn in outlook.chart.sessions if drawn.levels is not None]
    earlier = max((day for day in known if day < date), default="")
    later = min((day for day in known if day > date), default="")
    table = looked.entries(table=True)
    return {
        "self": path, "chart": _path(outlook.symbol, looked.entries(table=False)),
        "table": _path(outlook.symbol, table),
        "json": f"{path}/levels.json", "csv": f"{path}/levels.csv",
        "profile": f"{path}/profile.csv" + (f"?date={date}" if profile.levels.final else ""),
        "earlier": _path(outlook.symbol, looked.entries(table=True, date=earlier)) if earlier else "",
        "later": _path(outlook.symbol, looked.entries(table=True, date=later)) if later else "",
    }  # fmt: skip


def _page_keys(words: Words, *, table: bool) -> list[tuple[str, str]]:
    """What single keys do on this page, for the list of them."""
    both = [("t", words("Chart or table")), ("[]", words("Session before, session after"))]
    drawn = [
        ("s", words("Collapsed, split or candles")), ("b", words("Letters or blocks")), ("v", words("Volume")),
        ("p", words("Path of POC and value")), ("+-", words("Larger, smaller")), ("0", words("All sessions in view")),
    ]  # fmt: skip
    return both if table else both + drawn


def _page_data(outlook: Outlook, visit: Visit, *, follows: bool) -> dict[str, Any]:
    """What the script needs: no words but those it shows itself. follows: the stream tells of this very contract."""
    prior, notation = outlook.prior, outlook.chart.notation
    return {
        "symbol": outlook.symbol, "root": outlook.product.root, "live": outlook.live,
        "follow": follows, "lastPrice": outlook.levels.last_price, "zone": outlook.product.zone,
        "priorClose": prior.close_price if prior else None, "tickSize": outlook.chart.tick_size,
        "notation": {"kind": notation.kind, "decimals": notation.decimals, "parts": notation.parts},
        "updatedAt": outlook.levels.updated_at,
        "words": {
            "lost": visit.words("The connection to Outcry is lost. What stands here is of %(time)s.", time="{time}"),
            "copied": visit.words("Copied."),
            "not_copied": visit.words("The browser did not allow copying; the link beside it gives the same."),
        },
    }  # fmt: skip


def _path(symbol: str, entries: Sequence[tuple[str, str]] = ()) -> str:
    return f"/s/{quote(symbol, safe='')}" + (f"?{urlencode(entries)}" if entries else "")


PAGES: Sequence[Page] = (
    ("/s/{symbol}", ("GET",), symbol_page),
    ("/s/{symbol}/rail", ("GET",), symbol_rail),
)
