"""The profile view of a symbol's page: reads the chosen profile, and prepares its drawing, tables and links.

The data is the answer of `GET /api/profile` for the same choice. If there is none, the page says why and offers choices
that have an answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from outcry.access.licences import Scope
from outcry.answers.profile_request import ProfileRequest
from outcry.answers.query import Query
from outcry.base.errors import NoLicensedSource, NotFound, Occupied, ServiceError
from outcry.market.profile_settings import BRACKET_CHOICES, Hours
from outcry.web.formatter import Formatter, iso
from outcry.web.language import Words
from outcry.web.number_format import price_e9, price_text
from outcry.web.symbol.outlook import Outlook
from outcry.web.symbol.paths import path_of
from outcry.web.symbol.profile_choice import ROW_CHOICES, ProfileChoice
from outcry.web.symbol.profile_drawing import drawing_of
from outcry.web.symbol.profile_levels import any_price, levels_of, row_marks
from outcry.web.symbol.profile_problems import explained
from outcry.wire.profile import Balance, ProfileAnswer, ProfileWindow

#: An automatic row size gives at most this many rows; no drawing has more than `MOST_ROWS`.
_READABLE_ROWS, MOST_ROWS = 64, 1000
#: How far before and after a single day the page looks for other days: to merge with it, and to go to.
_LOOK_BACK, _LOOK_AHEAD = timedelta(days=20), timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ChosenProfile:
    """A profile as read for the page, or the error if there is none.

    `around`: the profile's sessions; for a single day, those of the days around it. `widened`: whether the chosen rows
    were too many to draw.
    """

    answer: ProfileAnswer | None
    problem: ServiceError | None = None
    around: ProfileWindow | None = None
    widened: bool = False

    @property
    def busy(self) -> bool:
        """Whether the service was only too busy; the next request may succeed."""
        return isinstance(self.problem, Occupied)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A choice that may have a profile, as a link."""

    href: str
    label: str


def read_profile(
    query: Query, scope: Scope, symbol: str, choice: ProfileChoice, zone: str, now_ns: int
) -> ChosenProfile:
    """Read the chosen profile. zone: IANA name of the exchange's time zone. Calls may block on the database."""

    def read(row_ticks: int) -> ProfileAnswer:
        return query.chosen_profile(scope, symbol, choice.request(zone, row_ticks), now_ns).answer

    try:
        answer = read(choice.row or 1)
        ticks = _ticks(answer)
        least = _row_for(ticks, _READABLE_ROWS if choice.row is None else MOST_ROWS)
        row = max(choice.row or 1, least)
        if row != (choice.row or 1):
            answer = read(row)
        around = _around(query, scope, symbol, choice, answer, now_ns)
    except NoLicensedSource:
        raise
    except ServiceError as problem:
        return ChosenProfile(None, problem)
    return ChosenProfile(answer, None, around, widened=choice.row is not None and row != choice.row)


def _ticks(answer: ProfileAnswer) -> int:
    """Return the number of ticks between the high and the low of a profile."""
    return (price_e9(answer.profile.high) - price_e9(answer.profile.low)) // price_e9(answer.tick_size) + 1


def _row_for(ticks: int, most: int) -> int:
    """Return the smallest row size that gives at most `most` rows."""
    return next((row for row in ROW_CHOICES if ticks <= row * most), ROW_CHOICES[-1])


def _around(
    query: Query, scope: Scope, symbol: str, choice: ProfileChoice, answer: ProfileAnswer, now_ns: int
) -> ProfileWindow:
    """Return the sessions of a profile; for a single day, the regular sessions of the days around it."""
    if choice.period != "day":
        return answer.window
    day = date.fromisoformat(answer.window.to)
    around = ProfileRequest(
        first=str(day - _LOOK_BACK), last=str(day + _LOOK_AHEAD), method=answer.method.preset
    )
    try:
        return query.chosen_profile(scope, symbol, around, now_ns).answer.window
    except NotFound:
        return answer.window


def _merges(choice: ProfileChoice, answer: ProfileAnswer, around: ProfileWindow) -> list[Balance]:
    """Return the days to suggest for a merged profile: within the profile, or those that its only day belongs to."""
    window = answer.window
    found = around.balances if around.contract == window.contract and choice.hours != "overnight" else []
    if choice.period == "day":
        found = [each for each in found if each.from_ <= window.to <= each.to]
    return [each for each in found if (each.from_, each.to) != (window.from_, window.to)]


def profile_values(
    outlook: Outlook,
    choice: ProfileChoice,
    found: ChosenProfile,
    methods: Sequence[str],
    formatter: Formatter,
) -> dict[str, Any]:
    """Return the values for the template `symbol/profile.html`. methods: the names that the form offers."""
    words = formatter.clock.words

    def href(other: ProfileChoice) -> str:
        return path_of(outlook.symbol, [("view", "profile"), *other.entries()])

    values: dict[str, Any] = {
        "choice": choice,
        "choice_anchor": choice.anchor_there(outlook.product.zone),
        "profile_form": _form(outlook, methods, words),
        "answer": found.answer,
        "problem": "",
        "remedies": (),
        "shown_from": choice.first,
        "shown_to": choice.last,
    }
    if found.answer is None:
        assert found.problem is not None, "a profile that is not there has a reason"
        text, changes = explained(found.problem, choice, formatter)
        remedies = [Remedy(href(replace(choice, **change)), label) for label, change in changes]
        return values | {"problem": text, "remedies": remedies}
    answer, around = found.answer, found.around or found.answer.window
    before, after = _neighbours(choice, answer, around, outlook.session.date)
    levels = levels_of(outlook, answer, choice.vwap, formatter)
    window = answer.window
    return values | {
        "shown_from": window.from_, "shown_to": window.to, "widened": found.widened,
        "drawing": drawing_of(answer, levels), "marks": row_marks(answer, levels, words),
        "level_rows": sorted(levels, key=lambda level: -level.price),
        "any_price": any_price(outlook),
        "row_height": price_text(answer.method.row_ticks * answer.tick_size, outlook.chart.notation),
        "hours_name": _hours_name(window.session, words), "days_name": days_name(answer, formatter),
        "missing_days": _missing(answer, formatter),
        "no_delta": choice.delta and answer.profile.delta is None,
        "merges": [_merge(each, choice, href, formatter) for each in reversed(_merges(choice, answer, around))],
        "earlier": href(replace(choice, date=before)) if before else "",
        "later": href(replace(choice, date=after)) if after else "",
        "api_query": _api_query(outlook, choice, answer),
    }  # fmt: skip


def _form(outlook: Outlook, methods: Sequence[str], words: Words) -> dict[str, Any]:
    """Return the options of the form's fields: pairs of value and label."""
    tick, notation = outlook.chart.tick_size, outlook.chart.notation
    return {
        "period": [
            ("day", words("Day")), ("week", words("Week")), ("month", words("Month")),
            ("quarter", words("Quarter")), ("range", words("Dates")),
        ],
        "session": [(hours, _hours_name(hours, words)) for hours in ("rth", "overnight", "full")],
        "bracket": [(minutes, words("%(minutes)s min", minutes=minutes)) for minutes in BRACKET_CHOICES],
        "row": [("", words("Auto")), *((row, price_text(row * tick, notation)) for row in ROW_CHOICES)],
        "method": [(name, name) for name in methods],
        "vwap": [("bands", words("With deviations")), ("line", words("Line only")), ("off", words("Off"))],
    }  # fmt: skip


def _hours_name(hours: Hours, words: Words) -> str:
    if hours == "overnight":
        return words("Overnight")
    return words("Full day") if hours == "full" else words("Regular hours")


def days_name(answer: ProfileAnswer, formatter: Formatter) -> str:
    """Return the days that a profile counts as text: one day, or the first and the last."""
    window = answer.window
    if window.from_ == window.to:
        return formatter.day(window.from_)
    return f"{formatter.day(window.from_)} – {formatter.day(window.to)}"


def _missing(answer: ProfileAnswer, formatter: Formatter) -> list[str]:
    words = formatter.clock.words
    kinds = {"rth": words("regular session"), "eth": words("overnight session")}
    return [f"{formatter.day(each.date)} ({kinds[each.session]})" for each in answer.window.missing]


def _merge(
    balance: Balance, choice: ProfileChoice, href: Callable[[ProfileChoice], str], formatter: Formatter
) -> Remedy:
    merged = replace(choice, period="range", first=balance.from_, last=balance.to, date="")
    label = formatter.clock.words.ngettext(
        "Merge %(num)s session: %(from)s – %(to)s", "Merge %(num)s sessions: %(from)s – %(to)s",
        balance.sessions,
    )  # fmt: skip
    days = {"from": formatter.day(balance.from_), "to": formatter.day(balance.to)}
    return Remedy(href(merged), label % {"num": balance.sessions, **days})


def _neighbours(
    choice: ProfileChoice, answer: ProfileAnswer, around: ProfileWindow, newest: str
) -> tuple[str, str]:
    """Return a day of the period before and of the one after the profile; empty if there is none. newest: a date."""
    window = answer.window
    if choice.period == "range":
        return "", ""
    if choice.period == "day":
        days = {each.date for each in around.sessions}
        before = max((day for day in days if day < window.from_), default="")
        return before, min((day for day in days if day > window.to), default="")
    one = timedelta(days=1)
    after = str(date.fromisoformat(window.to) + one)
    return str(date.fromisoformat(window.from_) - one), after if after <= newest else ""


def _api_query(outlook: Outlook, choice: ProfileChoice, answer: ProfileAnswer) -> str:
    """Return the API request of the same answer."""
    own = {"vwap", "row", "anchor", *(["period"] if choice.period == "range" else [])}
    found = [("symbol", outlook.symbol), *(pair for pair in choice.entries() if pair[0] not in own)]
    if answer.method.row_ticks > 1:
        found.append(("row", str(answer.method.row_ticks)))
    anchor_ns = choice.anchor_ns(outlook.product.zone)
    if anchor_ns is not None:
        found.append(("anchor", iso(anchor_ns)))
    return f"/api/profile?{urlencode(found, safe=':')}"
