"""Values for the parts of a symbol's page: head, side column, playbook, chart, table and the script's data.

The page and the script's updates use the same values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from outcry.answers.selection import utc_date
from outcry.market.calendar import SessionKind
from outcry.web.alerts.lines import alert_lines
from outcry.web.formatter import Clock, Formatter, iso, left
from outcry.web.language import Words
from outcry.web.number_format import age_text, instant_ns, price_text
from outcry.web.page_context import PageContext, PageRequest
from outcry.web.status_labels import StatusLabel, status_label
from outcry.web.symbol import phrases
from outcry.web.symbol.chart_view import PARTS, ROWS, SESSIONS, ChartView
from outcry.web.symbol.ladder import Age, rungs
from outcry.web.symbol.outlook import Gatherer, Outlook
from outcry.web.symbol.paths import path_of
from outcry.web.symbol.playbook_words import PlaybookWords
from outcry.web.symbol.profile_choice import ProfileChoice
from outcry.web.symbol.profile_view import ChosenProfile, profile_values
from outcry.web.symbol.session_table import listed_sessions, marks
from outcry.wire.alerts import AlertEntry
from outcry.wire.profile import ProfileAnswer

#: Levels within this fraction of the average daily range are highlighted.
NEAR = 0.05
#: States that a feed of the user's own or a grant would fix.
_NEEDS_FEED = {"no_connection", "not_front", "unsubscribed"}
#: States in which a live feed has stopped; its data is dimmed.
_PAUSED = {"stale_link", "stale_market", "disconnected", "degraded", "log_stalled"}


@dataclass(frozen=True, slots=True)
class ChosenView:
    """The view chosen on a symbol's page.

    `view`: the chart's view. `table`: whether a table replaces the chart. `date`: the session in the table; empty for
    the newest. `profile`: the profile that replaces the chart, if any.
    """

    view: ChartView
    table: bool
    date: str
    profile: ProfileChoice | None = None

    def entries(self, **changed: Any) -> list[tuple[str, str]]:
        """Return the view as query parameters of a URL. Choices that equal the default are left out."""
        wanted = replace(self, **changed)
        if wanted.profile is not None:
            return [("view", "profile"), *wanted.profile.entries()]
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
        if view.span is not None:
            found += [("from", str(view.span[0])), ("to", str(view.span[1]))]
        return [(name, value) for name, value in found if value]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The data of a symbol's page, read in one database call.

    `follows`: whether the event stream's updates for the product are about the contract that the page shows. `chosen`:
    the profile that replaces the chart, if one is chosen. `methods`: names of presets that the profile can have.
    """

    outlook: Outlook
    profile: ProfileAnswer
    alerts: Sequence[AlertEntry]
    follows: bool
    chosen: ChosenProfile | None = None
    methods: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a page's data comes from: a `live` feed, or the source of a completed session.

    `at`: time of the newest event, for programs. `day`, `time`: date and time of that event as text for the reader;
    `day` is empty if it is the open session's. `age`: time since that event as text, empty if no new data is expected.
    """

    name: str
    live: bool
    at: str
    day: str
    time: str
    age: str


def values_of(
    context: PageContext, request: PageRequest, chosen: ChosenView, found: Gathered
) -> dict[str, Any]:
    """Return the values for the templates of the page and its parts."""
    outlook, words, formatter = found.outlook, request.words, formatter_of(request, found.outlook)
    answer, now_ns = outlook.context, context.services.market_clock.now_ns()
    return {
        "outlook": outlook, "formatter": formatter, "symbol_tab": outlook.symbol, "invented": answer.invented,
        "state": _state(outlook, words, now_ns), "source": _source(outlook, formatter, now_ns),
        "paused": answer.state in _PAUSED, "needs_feed": answer.state in _NEEDS_FEED,
        "links": _links(outlook, chosen, found.profile), "table": chosen.table,
        "profile_view": chosen.profile is not None,
        "page_keys": _page_keys(words, table=chosen.table),
        "page_data": _page_data(outlook, request, follows=found.follows),
        **_head(outlook, formatter), **_rail(context, outlook, formatter, found.alerts),
        **_main(outlook, chosen, found, context, formatter),
    }  # fmt: skip


def _main(
    outlook: Outlook, chosen: ChosenView, found: Gathered, context: PageContext, formatter: Formatter
) -> dict[str, Any]:
    """Return the values of the middle of the page: profile, table or chart."""
    if chosen.profile is not None and found.chosen is not None:
        return {
            "profile_busy": found.chosen.busy,
            **profile_values(outlook, chosen.profile, found.chosen, found.methods, formatter),
        }
    table = _table(outlook, chosen, found.profile, formatter.clock.words)
    # the table also replaces the chart without scripts
    return table if chosen.table else table | _chart(outlook, chosen)


def _head(outlook: Outlook, formatter: Formatter) -> dict[str, Any]:
    words, session, relation = formatter.clock.words, outlook.session, outlook.value_relation
    return {
        "clock": session_clock(outlook, formatter),
        "day_type": phrases.named(phrases.DAY_TYPES, session.day_type, words),
        "open_type": phrases.named(phrases.OPEN_TYPES, session.open_type, words),
        "value_relation": words(phrases.VALUE_RELATIONS[relation]) if relation else "",
        "missing_sessions": _missing(outlook, formatter),
    }


def _missing(outlook: Outlook, formatter: Formatter) -> list[tuple[str, str]]:
    """Return earlier sessions whose levels are missing because their recording is incomplete: day, and gaps as text.

    Gaps are in exchange time. The text is empty for a session that is not recorded at all.
    """

    def clock(instant: str) -> str:
        return formatter.clock.time(instant_ns(instant), seconds=False)

    return [
        (formatter.day(one.date), ", ".join(f"{clock(hole.from_)}–{clock(hole.to)}" for hole in one.holes))
        for one in reversed(outlook.context.completeness.missing)
    ]


def _rail(
    context: PageContext, outlook: Outlook, formatter: Formatter, alerts: Sequence[AlertEntry]
) -> dict[str, Any]:
    services, words, votes = context.services, formatter.clock.words, outlook.context.bias_votes
    gatherer = Gatherer(services.query, services.universe, services.hours)
    root = outlook.product.root
    playbook_words = PlaybookWords(words, outlook.product.tick_e9, formatter.price, formatter.day)

    def age(made_on: str) -> int:
        return gatherer.age(root, made_on, outlook.session.date)

    return {
        "bias": phrases.named(phrases.BIASES, outlook.context.bias, words),
        "reasons": phrases.reasons(votes, words) if votes else [],
        "doubt": _doubt(outlook, words),
        "rungs": rungs(outlook, words, age),
        "dated": _dated(outlook, age),
        "near_points": NEAR * (outlook.chart.average_range or 0),
        "cards": playbook_words.cards(outlook.scenarios or ()),
        "alerts": alert_lines(alerts, lambda _: formatter, {root: outlook.levels}),
    }


def _doubt(outlook: Outlook, words: Words) -> str:
    """Return a note if the last 30-minute close contradicts the bias; empty if it does not.

    Also empty if price has broken both sides of the IB, because that alone decides the bias.
    """
    session, votes = outlook.session, outlook.context.bias_votes
    both = session.ib_complete and session.high > session.ib_high and session.low < session.ib_low
    return "" if votes is None or both else phrases.doubt(outlook.context.bias, votes, words)


def _dated(outlook: Outlook, age: Age) -> dict[str, int]:
    """Return the age in sessions of naked POCs and poor highs and lows, by the date of the session that made them."""
    levels = outlook.levels
    every = (*levels.naked_pocs, *levels.poor_highs, *levels.poor_lows)
    return {level.date: age(level.date) for level in every}


def _chart(outlook: Outlook, chosen: ChosenView) -> dict[str, Any]:
    """Return the values for the chart's template, `symbol/chart.html`."""
    tick, notation = outlook.chart.tick_size, outlook.chart.notation
    return {
        "answer": outlook.chart,
        "chart_year": utc_date(outlook.at_ns).year,
        "chart_view": chosen.view,
        "chart_rows": [(ticks, price_text(ticks * tick, notation)) for ticks in ROWS],
        "chart_action": path_of(outlook.symbol),
        "chart_hidden_fields": [("date", chosen.date)] if chosen.date else [],
        "chart_table": path_of(outlook.symbol, chosen.entries(table=True)),
    }


def _table(outlook: Outlook, chosen: ChosenView, profile: ProfileAnswer, words: Words) -> dict[str, Any]:
    def href(date: str) -> str:
        return path_of(outlook.symbol, chosen.entries(table=True, date=date))

    return {
        "profile": profile,
        "marks": marks(
            profile.levels,
            next((drawn for drawn in outlook.chart.sessions if drawn.date == profile.levels.date), None),
            words,
        ),
        "sessions": listed_sessions(outlook, words, href),
        "session_counts": SESSIONS,
        "chart_view": chosen.view,
        "table_hidden_fields": [
            (name, value) for name, value in chosen.entries() if name not in {"sessions", "view"}
        ],
    }


def formatter_of(request: PageRequest, outlook: Outlook) -> Formatter:
    """Return the formatter for a symbol's numbers and times, for one reader."""
    year = utc_date(outlook.at_ns).year
    clock = Clock(request.words, outlook.product.zone, request.preferences.time_zone, year)
    return Formatter(outlook.chart.notation, clock)


def _state(outlook: Outlook, words: Words, now_ns: int) -> StatusLabel:
    levels, hours = outlook.levels, outlook.hours
    return status_label(
        words, outlook.context.state, updated_at=levels.updated_at or outlook.last_data_at, as_of=levels.as_of,
        now_ns=now_ns, opens_ns=hours.opens_ns, zone=outlook.product.zone,
    )  # fmt: skip


def _source(outlook: Outlook, formatter: Formatter, now_ns: int) -> Source:
    data, awaited = outlook.session.data, outlook.levels.updated_at or outlook.last_data_at
    at = awaited or data.last
    at_ns = instant_ns(at)
    return Source(
        name=outlook.context.feed or data.source,
        live=outlook.live,
        at=at,
        day="" if outlook.live else formatter.clock.day(formatter.clock.date(at_ns)),
        time=formatter.clock.time(at_ns),
        age=age_text(now_ns - at_ns) if awaited else "",
    )


def session_clock(outlook: Outlook, formatter: Formatter) -> dict[str, str | bool]:
    """Return the values for the session clock of the page.

    They are the time left in the session, or the next opening if none is open, and whether regular hours are open.
    """
    hours, now_ns = outlook.hours, outlook.at_ns
    until_ns = hours.bracket_ends_ns if outlook.live and outlook.regular else hours.regular_ns
    opens = ""
    if hours.opens_ns is not None:
        opens = formatter.clock.words(
            "Closed, opens %(day)s %(time)s",
            day=formatter.clock.weekday(hours.opens_ns),
            time=formatter.clock.time(hours.opens_ns, seconds=False),
        )
    return {
        "until": iso(until_ns) if until_ns else "", "left": left(until_ns - now_ns) if until_ns else "",
        "opens": opens, "open_now": hours.session is not None and hours.session.kind is SessionKind.RTH,
    }  # fmt: skip


def _links(outlook: Outlook, chosen: ChosenView, profile: ProfileAnswer) -> dict[str, str]:
    """Return the links to the other views and to the downloads."""
    path, date = path_of(outlook.symbol), profile.levels.date
    known = [drawn.date for drawn in outlook.chart.sessions if drawn.levels is not None]
    earlier = max((day for day in known if day < date), default="")
    later = min((day for day in known if day > date), default="")
    table = chosen.entries(table=True, profile=None)
    return {
        "self": path, "chart": path_of(outlook.symbol, chosen.entries(table=False, profile=None)),
        "profiles": path_of(outlook.symbol, chosen.entries(profile=chosen.profile or ProfileChoice())),
        "table": path_of(outlook.symbol, table),
        "json": f"{path}/levels.json", "csv": f"{path}/levels.csv",
        "profile": f"{path}/profile.csv" + (f"?date={date}" if profile.levels.final else ""),
        "earlier": path_of(outlook.symbol, chosen.entries(table=True, date=earlier, profile=None)) if earlier else "",
        "later": path_of(outlook.symbol, chosen.entries(table=True, date=later, profile=None)) if later else "",
    }  # fmt: skip


def _page_keys(words: Words, *, table: bool) -> list[tuple[str, str]]:
    """Return the page's keyboard shortcuts."""
    both = [("t", words("Chart or table")), ("[]", words("Previous or next session"))]
    drawn = [
        ("s", words("Collapsed, split or candles")), ("b", words("Letters or blocks")), ("v", words("Volume")),
        ("p", words("POC and value area path")), ("+-", words("Zoom in or out")), ("0", words("Show all sessions")),
    ]  # fmt: skip
    return both if table else both + drawn


def _page_data(outlook: Outlook, request: PageRequest, *, follows: bool) -> dict[str, Any]:
    """Return the data for the page's script. follows: whether the event stream's updates are about this contract."""
    notation = outlook.chart.notation
    return {
        "symbol": outlook.symbol, "root": outlook.product.root, "live": outlook.live,
        "follow": follows, "lastPrice": outlook.levels.last_price, "zone": outlook.product.zone,
        "notation": {"kind": notation.kind, "decimals": notation.decimals, "parts": notation.parts},
        "updatedAt": outlook.levels.updated_at,
        "words": {
            "lost": request.words("Connection to Outcry lost. Showing data as of %(time)s.", time="{time}"),
            "chart_coming": request.words("Loading the chart…"),
            "chart_failed": request.words("The chart could not be loaded. Retrying…"),
            "profile_failed": request.words("The profile could not be loaded. Try again."),
            "copied": request.words("Copied."),
            "not_copied": request.words("Your browser blocked copying. Use the download link instead."),
        },
    }  # fmt: skip
