"""Parts of sessions in a profile of the library: where it is split, its letters by day, and sessions to merge."""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outcry.library.conversion import bar_length_ns
from outcry.library.errors import InvalidInput
from outcry.library.terms import Terms
from outcry.library.times import Ints, instant_of, span_text, time_text
from outcry.market.calendar import SessionKind
from outcry.market.composite import dated_balances
from outcry.market.ladder import Bracket, Ladder, bracket_windows
from outcry.market.profile_settings import ProfileSettings, ladder_levels


def cuts_of(terms: Terms, split: Sequence[Any]) -> list[int]:
    """Return the edges of the parts of a profile (ns UTC): its start, the instants that divide it, its end."""
    start, end = terms.segments[0][0], terms.segments[-1][1]
    if isinstance(split, str):
        raise InvalidInput(f"Invalid split {split!r}", "Give a list of times.")
    cuts = sorted({instant_of(value, "split") for value in split})
    for cut in cuts:
        if not start < cut < end:
            raise InvalidInput(
                f"The profile cannot be split at {time_text(cut)}: it is from {span_text(start, end)}",
                "Give times between these.",
            )
    return [start, *cuts, end]


def check_cuts(at_ns: Ints, terms: Terms, cuts: Sequence[int]) -> None:
    """Raise `InvalidInput` if a profile begins, ends or is split inside a bar. at_ns: the starts of the bars.

    Windows of the user's own may begin and end anywhere: bars that start inside count.
    """
    edges = set(cuts[1:-1])
    if terms.parts:
        edges |= {edge for segment in terms.segments for edge in segment}
    edges -= {edge for segment in terms.bracket_segments for edge in segment}
    length = bar_length_ns(at_ns)
    for edge in sorted(edges) if length else ():
        across = (at_ns < edge) & (at_ns > edge - length)
        if across.any():
            start = int(at_ns[int(np.argmax(across))])
            raise InvalidInput(
                f"A bar from {span_text(start, start + length)} cannot be divided at {time_text(edge)}",
                "Use its start or its end.",
            )


def letters_of(rows: Ladder, terms: Terms, minutes: int) -> list[str]:
    """Return the letters at each row, lowest row first: those of each trade date in order, with spaces between them."""
    if len(terms.brackets_of) == 1:
        return rows.letters()
    marks: list[list[str]] = [[] for _ in rows.volume]
    for brackets in _by_day(rows, terms, minutes):
        if brackets:
            for row, text in enumerate(replace(rows, brackets=tuple(brackets)).letters()):
                if text:
                    marks[row].append(text)
    return [" ".join(texts) for texts in marks]


def _by_day(ladder: Ladder, terms: Terms, minutes: int) -> Iterator[list[Bracket]]:
    """Yield the brackets of each trade date, counted from the beginning of that date."""
    at = first = 0
    for segments in terms.brackets_of:
        count = len(bracket_windows(terms.bracket_segments[at : at + segments], minutes))
        brackets = [b for b in ladder.brackets if first <= b.index < first + count]
        yield [replace(bracket, index=bracket.index - first) for bracket in brackets]
        at, first = at + segments, first + count


def balances_of(ladder: Ladder, terms: Terms, settings: ProfileSettings) -> list[tuple[dt.date, dt.date]]:
    """Return the first and last dates of regular sessions that can be merged, by the value areas of their TPOs.

    Only whole regular sessions count, and only if the profile consists of these.
    """
    days = terms.days
    if len(days) < 2 or terms.session != "rth" or not all(part.whole for part in terms.parts):
        return []
    areas: list[tuple[dt.date, tuple[int, int]]] = []
    for day, brackets in zip(days, _by_day(ladder, terms, settings.bracket_minutes), strict=True):
        if brackets:
            low, high = min(b.low_ticks for b in brackets), max(b.high_ticks for b in brackets)
            of_day = Ladder(tuple(brackets), low, (0,) * (high - low + 1), (), ladder.source)
            found = ladder_levels(of_day, settings)
            areas.append((day, (found.val, found.vah)))
    assert terms.product is not None, "trade dates are those of a product"
    assert terms.calendar is not None, "and of its calendar"
    between = terms.calendar.sessions(terms.product.root, days[0], days[-1])
    left_out = {s.trade_date for s in between if s.kind is SessionKind.RTH}.difference(days)
    return [(first, last) for first, last, _ in dated_balances(areas, left_out)]
