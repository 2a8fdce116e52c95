"""The parameters of `GET /api/profile`, and the spans of time that they select."""

import datetime as dt
from dataclasses import dataclass, replace

from outcry.base.errors import InvalidParameter
from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.methods import PRESETS
from outcry.market.periods import period_of
from outcry.market.profile_settings import Hours, ProfileSettings
from outcry.market.saved_setting import SavedSetting
from outcry.market.session_parts import Edge, Span
from outcry.market.session_rows import Counting
from outcry.wire.profile import Period

#: The longest range of one profile in trade dates, about a year, and that of one that reads trades from the tape.
MAX_DAYS, MAX_DAYS_OF_TRADES = 260, 23
#: Calendar days beyond which sessions are not even listed; it is more than `MAX_DAYS` trade dates have.
_LONGEST_RANGE = dt.timedelta(days=400)

#: A trade date as ISO text, or an instant in ns UTC.
EdgeText = str | int


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """The parameters of `GET /api/profile`, checked one by one. None and empty tuples mean the default.

    first, last: the parameters `from` and `to`. sessions: pairs of first and last, each a trade date (included) or an
    instant (`last` not included). split: instants (ns UTC). method: name of a preset, or of one of the caller's own.
    named: those of the parameters `session`, `bracket` and `row` that the caller named, with spaces between them; the
    others follow from an own preset. own: that preset.
    """

    date: str | None = None
    first: EdgeText | None = None
    last: EdgeText | None = None
    period: Period | None = None
    hours: Hours = "rth"
    bracket_minutes: int = BRACKET_MINUTES
    row_ticks: int = 1
    method: str = "dalton"
    delta: bool = False
    anchor_ns: int | None = None
    sessions: tuple[tuple[EdgeText, EdgeText], ...] = ()
    split: tuple[int, ...] = ()
    named: str = ""
    own: SavedSetting | None = None

    def with_own(self, own: SavedSetting) -> "ProfileRequest":
        """Return the request with the values of a user's own preset, except those that the caller named."""
        named = self.named.split()
        return replace(
            self,
            own=own,
            hours=self.hours if "session" in named else own.hours,
            bracket_minutes=self.bracket_minutes if "bracket" in named else own.bracket_minutes,
            row_ticks=self.row_ticks if "row" in named else own.row_ticks,
        )

    @property
    def needs_trades(self) -> bool:
        """Return whether the ladders of stored sessions cannot answer the request, even for whole sessions."""
        return self.delta or self.needs_rows

    @property
    def needs_rows(self) -> bool:
        """Return whether the request has no answer without trades or bars. Otherwise only its delta needs them."""
        counting = self.counting
        return counting.minutes < BRACKET_MINUTES or bool(counting.bar_minutes or counting.close_minutes)

    @property
    def counting(self) -> Counting:
        """Return how trades and bars are counted."""
        settings = self.settings
        if settings.counts_closes:
            return Counting(self.bracket_minutes, close_minutes=settings.close_minutes)
        return Counting(self.bracket_minutes, settings.bar_minutes)

    @property
    def settings(self) -> ProfileSettings:
        """Return the settings of the profile."""
        own = self.own
        return ProfileSettings(
            PRESETS[self.method] if own is None else own.method,
            self.hours,
            bracket_minutes=self.bracket_minutes,
            row_ticks=self.row_ticks,
            bar_minutes=0 if own is None else own.bar_minutes,
            label="ticks" if own is None else own.label,
        )

    @property
    def range_parameter(self) -> str:
        """Return the name of the parameter that selects the sessions."""
        return "sessions" if self.sessions else "from" if self.first is not None else "period"

    def parameter_of(self, at_ns: int) -> str:
        """Return the name of the parameter that has an instant."""
        if at_ns in self.split:
            return "split"
        if any(at_ns in pair for pair in self.sessions):
            return "sessions"
        return "from" if at_ns == self.first else "to"

    def spans(self, newest: dt.date) -> list[Span]:
        """Return the spans that the request selects. newest: trade date of the newest session.

        Raises `InvalidParameter` if the parameters contradict each other.
        """
        if self.sessions:
            if any(other is not None for other in (self.first, self.last, self.date, self.period)):
                raise InvalidParameter("invalid_parameter.sessions_alone", parameter="sessions")
            return [_span(first, last, "sessions") for first, last in self.sessions]
        if self.first is None and self.last is None:
            day = dt.date.fromisoformat(self.date) if self.date else newest
            return [Span(*period_of(day, self.period or "day"))]
        if self.date is not None or self.period is not None:
            name = "date" if self.date is not None else "period"
            raise InvalidParameter("invalid_parameter.exclusive", parameter=name)
        if self.first is None:
            raise InvalidParameter("invalid_parameter.from_missing", parameter="from")
        if self.last is not None:
            return [_span(self.first, self.last, "from")]
        first = _edge(self.first)
        return [Span(first, max(newest, first) if isinstance(first, dt.date) else newest)]


def _edge(text: EdgeText) -> Edge:
    return text if isinstance(text, int) else dt.date.fromisoformat(text)


def _span(first: EdgeText, last: EdgeText, parameter: str) -> Span:
    found = Span(_edge(first), _edge(last))
    start, end = found.dates
    if found.is_reversed:
        raise InvalidParameter("invalid_parameter.order", parameter=parameter)
    if end - start > _LONGEST_RANGE:
        raise InvalidParameter("invalid_parameter.range", parameter=parameter, most=MAX_DAYS)
    return found
