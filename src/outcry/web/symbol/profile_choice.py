"""The profile chosen on a symbol's page (`/s/ES?view=profile`), as in the URL's parameters and the form's fields.

The parameters have the names and values of `GET /api/profile`. Three belong to the page alone: `period=range` for the
dates `from` and `to`, `vwap`, and `row` left out for an automatic row size. Values that the form does not offer are
ignored, as on all pages; dates and times that a user can type wrong are reported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any, Literal, cast, get_args
from zoneinfo import ZoneInfo

from outcry.answers.profile_request import ProfileRequest
from outcry.base.errors import InvalidParameter
from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.methods import DALTON, PRESETS
from outcry.market.profile_settings import BRACKET_CHOICES, MAX_ROW_TICKS, Hours
from outcry.market.units import NANOS_PER_SECOND
from outcry.web.symbol.chart_view import ROWS
from outcry.wire.profile import Period

Days = Literal["day", "week", "month", "quarter", "range"]
VwapLines = Literal["bands", "line", "off"]

#: Row sizes that the form offers, in ticks.
ROW_CHOICES = tuple(ticks for ticks in ROWS if ticks <= MAX_ROW_TICKS)
_LONGEST = len("2026-01-02T14:30:00.000000+00:00")


@dataclass(frozen=True, slots=True)
class ProfileChoice:
    """The chosen days, hours and settings.

    `date`: a day of the period, empty for the newest session. `first`, `last`: the days of a range. `row`: ticks, None
    for automatic. `anchor`: start of the anchored VWAP as text, in exchange time unless it has an offset.
    """

    period: Days = "day"
    hours: Hours = "rth"
    date: str = ""
    first: str = ""
    last: str = ""
    bracket: int = BRACKET_MINUTES
    row: int | None = None
    method: str = DALTON.name
    delta: bool = False
    vwap: VwapLines = "bands"
    anchor: str = ""

    def entries(self, **changed: Any) -> list[tuple[str, str]]:
        """Return the choice as query parameters. Those that equal the default, or do not apply, are left out."""
        wanted, usual = replace(self, **changed), ProfileChoice()
        ranged = wanted.period == "range"
        found = [
            ("period", wanted.period if wanted.period != usual.period else ""),
            ("session", wanted.hours if wanted.hours != usual.hours else ""),
            ("date", "" if ranged else wanted.date),
            ("from", wanted.first if ranged else ""),
            ("to", wanted.last if ranged else ""),
            ("bracket", str(wanted.bracket) if wanted.bracket != usual.bracket else ""),
            ("row", str(wanted.row) if wanted.row else ""),
            ("method", wanted.method if wanted.method != usual.method else ""),
            ("delta", "1" if wanted.delta else ""),
            ("vwap", wanted.vwap if wanted.vwap != usual.vwap else ""),
            ("anchor", wanted.anchor),
        ]
        return [(name, value) for name, value in found if value]

    def request(self, zone: str, row_ticks: int) -> ProfileRequest:
        """Return the request of this choice with rows of `row_ticks`. zone: IANA name of the exchange's time zone.

        Raises `InvalidParameter` for a date or time that is none.
        """
        ranged = self.period == "range"
        return ProfileRequest(
            date=None if ranged else _day(self.date, "date"),
            first=_day(self.first, "from") if ranged else None,
            last=_day(self.last, "to") if ranged else None,
            period=None if self.period in {"day", "range"} else cast("Period", self.period),
            hours=self.hours,
            bracket_minutes=self.bracket,
            row_ticks=row_ticks,
            method=self.method,
            delta=self.delta,
            anchor_ns=self.anchor_ns(zone),
            named=self._named if self.method not in PRESETS else "",
        )

    @property
    def _named(self) -> str:
        """Return the parameters with a chosen value, which replaces that of a user's own preset."""
        usual = ProfileChoice()
        chosen = {
            "session": self.hours != usual.hours, "bracket": self.bracket != usual.bracket, "row": self.row is not None
        }  # fmt: skip
        return " ".join(name for name, is_chosen in chosen.items() if is_chosen)

    def anchor_ns(self, zone: str) -> int | None:
        """Return the anchor in ns UTC; None without one. Raises `InvalidParameter`."""
        if not self.anchor:
            return None
        try:
            at = datetime.fromisoformat(self.anchor)
            at = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(zone))
            return int(at.astimezone(UTC).timestamp()) * NANOS_PER_SECOND
        except (ValueError, OverflowError) as problem:
            raise InvalidParameter("invalid_parameter.instant", parameter="anchor") from problem

    def anchor_there(self, zone: str) -> str:
        """Return the anchor in exchange time as a date-and-time field has it; empty without a valid one."""
        try:
            at_ns = self.anchor_ns(zone)
        except InvalidParameter:
            return ""
        if at_ns is None:
            return ""
        return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, ZoneInfo(zone)):%Y-%m-%dT%H:%M}"


def choice_of(query: Mapping[str, str], methods: Sequence[str]) -> ProfileChoice:
    """Read the choice from a URL's query. methods: names that the caller may choose."""
    usual = ProfileChoice()
    period, hours, vwap = query.get("period"), query.get("session"), query.get("vwap")
    bracket, row, method = query.get("bracket", ""), query.get("row", ""), query.get("method", "")
    return ProfileChoice(
        period=cast("Days", period) if period in get_args(Days) else usual.period,
        hours=cast("Hours", hours) if hours in get_args(Hours) else usual.hours,
        date=_typed(query, "date"),
        first=_typed(query, "from"),
        last=_typed(query, "to"),
        bracket=next((minutes for minutes in BRACKET_CHOICES if str(minutes) == bracket), usual.bracket),
        row=int(row) if _is_row(row) else None,
        method=method if method in methods else usual.method,
        delta=query.get("delta") == "1",
        vwap=cast("VwapLines", vwap) if vwap in get_args(VwapLines) else usual.vwap,
        anchor=_typed(query, "anchor"),
    )


def _typed(query: Mapping[str, str], name: str) -> str:
    return query.get(name, "").strip()[:_LONGEST]


def _is_row(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MAX_ROW_TICKS


def _day(text: str, parameter: str) -> str | None:
    if not text:
        return None
    try:
        if len(text) == len("2026-01-02"):
            return str(date.fromisoformat(text))
    except ValueError:
        pass
    raise InvalidParameter("invalid_parameter.date", parameter=parameter)
