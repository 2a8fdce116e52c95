"""Turns what the core computed into the parts of answers: ticks into prices, instants into text."""

from collections.abc import Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from outcry.core import levels as core_levels
from outcry.core.calendar import Session
from outcry.core.daytype import day_type, open_type
from outcry.core.ladder import BRACKET_MINUTES, Ladder
from outcry.core.methods import DALTON
from outcry.core.profile import SessionProfile
from outcry.core.units import NANOS_PER_MS, NANOS_PER_SECOND
from outcry.services.answers import (
    DataQuality,
    DatedLevel,
    IbExtension,
    Method,
    Overnight,
    PriceRange,
    ProfileRow,
    SessionLevels,
    number,
)
from outcry.services.shelf import Place, StoredSession


def instant(at_ns: int) -> str:
    """An instant as `2026-01-02T15:04:05.123Z`."""
    whole = datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{at_ns % NANOS_PER_SECOND // NANOS_PER_MS:03d}Z"


def carried(
    levels: core_levels.Carried, tick_e9: int
) -> tuple[list[DatedLevel], list[DatedLevel], list[DatedLevel]]:
    """Naked POCs, poor highs and poor lows, each newest first."""

    def dated(found: Sequence[core_levels.Dated]) -> list[DatedLevel]:
        return [
            DatedLevel(price=number(level.price_ticks * tick_e9), date=str(level.made_on)) for level in found
        ]

    return dated(levels.naked_pocs), dated(levels.poor_highs), dated(levels.poor_lows)


def method(session: StoredSession) -> Method:
    """How the session's levels were computed."""
    return Method(
        preset=DALTON.name, bracket_minutes=BRACKET_MINUTES, value_area=DALTON.describe(),
        poc_tie="nearest the range centre, then the side with more TPOs, then lower", row_ticks=1,
        vpoc_source=session.ladder.source,
    )  # fmt: skip


def overnight(session: StoredSession | None, tick_e9: int) -> Overnight | None:
    """The overnight range."""
    if session is None:
        return None
    return Overnight(high=number(session.profile.high * tick_e9), low=number(session.profile.low * tick_e9))


def ib_extensions(profile: SessionProfile, tick_e9: int) -> list[IbExtension]:
    """Multiples of the initial balance beyond its edges: 150 % is half its range beyond, 200 % all of it.

    Half of an odd number of ticks is rounded away from the balance, to a price that can trade.
    """
    balance = profile.ib_high - profile.ib_low
    found: list[IbExtension] = []
    for percent in (150, 200, 300):
        beyond = -(-balance * (percent - 100) // 100)
        up, down = profile.ib_high + beyond, profile.ib_low - beyond
        found.append(
            IbExtension(
                percent=percent, up=number(up * tick_e9), down=number(down * tick_e9),
                up_reached=profile.high >= up, down_reached=profile.low <= down,
            )
        )  # fmt: skip
    return found


def rows(ladder: Ladder, tick_e9: int) -> list[ProfileRow]:
    """The rows of a profile, high to low; letters in order of the brackets."""
    tpos, letters = ladder.tpo_counts(), ladder.letters()
    return [
        ProfileRow(
            price=number((ladder.low_ticks + row) * tick_e9), tpos=tpos[row], letters=letters[row],
            volume=ladder.volume[row],
        )
        for row in reversed(range(len(tpos)))
    ]  # fmt: skip


def session(place: Place, night: StoredSession | None, tick_e9: int) -> SessionLevels:
    """Everything computed of a session."""
    stored = place.session
    row, profile, ladder = stored.row, stored.profile, stored.ladder

    def price(ticks: int) -> float:
        return number(ticks * tick_e9)

    return SessionLevels(
        contract=stored.contract.key, date=str(row.trade_date), session=row.kind.value,
        open=instant(row.open_ns), close=instant(row.close_ns), short_session=row.short,
        poc=price(profile.poc), vah=price(profile.vah), val=price(profile.val), vpoc=price(profile.vpoc),
        volume_vah=price(profile.volume_va[1]), volume_val=price(profile.volume_va[0]),
        high=price(profile.high), low=price(profile.low),
        open_price=price(profile.open), close_price=price(profile.close),
        ib_high=price(profile.ib_high), ib_low=price(profile.ib_low), ib_complete=row.complete,
        poc_candidates=[price(ticks) for ticks in profile.poc_candidates],
        poor_high=profile.poor_high, poor_low=profile.poor_low,
        upper_tail_ticks=profile.upper_tail_rows, lower_tail_ticks=profile.lower_tail_rows,
        single_prints=[PriceRange(low=price(low), high=price(high)) for low, high in profile.single_prints],
        day_type=day_type(profile, place.average_range_ticks()).value,
        open_type=_open_type(place, ladder, night),
        data=quality(stored),
    )  # fmt: skip


def _open_type(place: Place, ladder: Ladder, night: StoredSession | None) -> str | None:
    known: list[int] = []
    prior = place.prior.profile if place.prior else None
    if prior:
        known += [prior.high, prior.low, prior.vah, prior.val]
    if night:
        known += [night.profile.high, night.profile.low]
    found = open_type(ladder, known, (prior.low, prior.high) if prior else None)
    return found.value if found else None


def quality(stored: StoredSession) -> DataQuality:
    """What a session was computed from."""
    row = stored.row
    return DataQuality(
        source=row.source, quality=row.quality.value, complete=row.complete, rows=row.rows, volume=row.volume,
        off_tick=row.off_tick, out_of_order=row.out_of_order, first=instant(row.first_ns), last=instant(row.last_ns),
    )  # fmt: skip


def hours(regular: Sequence[Session], zone: str) -> str:
    """The regular hours of a product in its own zone, `09:30–16:15`, from a session of full length nearby."""
    whole = next((s for s in reversed(regular) if not s.short), None)
    if whole is None:
        return ""
    opened, closed = (
        datetime.fromtimestamp(at // NANOS_PER_SECOND, ZoneInfo(zone))
        for at in (whole.open_ns, whole.close_ns)
    )
    return f"{opened:%H:%M}–{closed:%H:%M}"
