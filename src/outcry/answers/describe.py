"""Convert computed results to parts of answers: ticks to prices, timestamps to text."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from outcry.answers.session_view import SessionView
from outcry.base.sizes import size
from outcry.base.timestamps import iso_timestamp
from outcry.live.model import AlertRow
from outcry.market import levels as core_levels
from outcry.market import periods
from outcry.market.alerts.machine import AlertType
from outcry.market.bias import Votes
from outcry.market.calendar import Session, SessionKind
from outcry.market.day_type import OpenType, day_type, open_type
from outcry.market.instruments import Product
from outcry.market.ladder import Ladder
from outcry.market.live_session import LiveView
from outcry.market.opening import IncompleteSession, Prior
from outcry.market.playbook import ScenarioState
from outcry.market.profile import SessionProfile
from outcry.market.profile_settings import DEFAULT_SETTINGS, ProfileSettings
from outcry.market.units import NANOS_PER_SECOND
from outcry.wire.answers import (
    COMPLETE_RULE,
    BiasVotes,
    Completeness,
    DamagedData,
    DatedLevel,
    Developing,
    Hole,
    IbExtension,
    Instrument,
    Method,
    MissingSession,
    Overnight,
    PeriodPoc,
    Playbook,
    PlaybookLevel,
    PriceRange,
    PriorLevels,
    Scenario,
    SessionLevels,
    Size,
    number,
)
from outcry.wire.chart import TouchedPoc


def carried(
    levels: core_levels.CarriedLevels, tick_e9: int
) -> tuple[list[DatedLevel], list[DatedLevel], list[DatedLevel]]:
    """Return naked POCs, poor highs and poor lows, each newest first."""

    def dated(found: Sequence[core_levels.CarriedLevel]) -> list[DatedLevel]:
        return [
            DatedLevel(price=number(level.price_ticks * tick_e9), date=str(level.made_on)) for level in found
        ]

    return dated(levels.naked_pocs), dated(levels.poor_highs), dated(levels.poor_lows)


def period_pocs(found: Sequence[periods.PeriodPoc], period: periods.Period, tick_e9: int) -> list[PeriodPoc]:
    """Return the naked POCs of one kind of period, newest first."""
    return [
        PeriodPoc(
            price=number(poc.price_ticks * tick_e9),
            from_=str(poc.first),
            to=str(poc.last),
            sessions=poc.sessions,
        )
        for poc in found
        if poc.period == period
    ]


def spent(
    view: LiveView, fired: Sequence[AlertRow], tick_e9: int
) -> tuple[list[TouchedPoc], list[DatedLevel], list[DatedLevel]]:
    """Return the levels that the open regular session has used up: touched POCs, and repaired poor highs and lows.

    `fired`: the session's alerts, which have the times at which POCs were touched.
    """
    opening = view.opening
    if opening.kind is not SessionKind.RTH:
        return [], [], []
    times = {
        row.ref: iso_timestamp(row.at_ns)
        for row in fired
        if row.type is AlertType.NAKED_POC and row.trade_date == opening.trade_date
    }
    pocs, highs, lows = carried(core_levels.spent(opening.carried, view.ladder), tick_e9)
    return [TouchedPoc(price=poc.price, date=poc.date, at=times.get(poc.date)) for poc in pocs], highs, lows


def damaged(rows: Iterable[tuple[str, str, str]]) -> list[DamagedData]:
    """Return damaged sessions from rows of contract, date and kind; unprintable characters are escaped."""
    return [
        DamagedData(contract=_shown(contract), date=_shown(date), session=_shown(kind))
        for contract, date, kind in rows
    ]


def completeness(found: Iterable[IncompleteSession]) -> Completeness:
    """Return the rule by which sessions count as complete, and the incomplete ones that the levels look back on."""
    missing = [
        MissingSession(
            date=str(one.trade_date), recorded=one.recorded,
            holes=[Hole(from_=iso_timestamp(first), to=iso_timestamp(last)) for first, last in one.holes],
        )
        for one in found
    ]  # fmt: skip
    return Completeness(rule=COMPLETE_RULE, missing=missing)


def _shown(text: str) -> str:
    return text.encode("unicode_escape").decode()


def value_area(completed: Prior | SessionProfile, tick_e9: int) -> PriorLevels:
    """Return POC and value area of a completed session."""
    return PriorLevels(
        poc=number(completed.poc * tick_e9),
        vah=number(completed.vah * tick_e9),
        val=number(completed.val * tick_e9),
    )


def developing(profile: SessionProfile, tick_e9: int) -> Developing:
    """Return the eight developing values of the open session, such as its POC so far."""
    return Developing(
        poc=number(profile.poc * tick_e9), vah=number(profile.vah * tick_e9), val=number(profile.val * tick_e9),
        vpoc=number(profile.vpoc * tick_e9),
        ib_high=number(profile.ib_high * tick_e9), ib_low=number(profile.ib_low * tick_e9),
        high=number(profile.high * tick_e9), low=number(profile.low * tick_e9),
    )  # fmt: skip


def playbook(view: LiveView, tick_e9: int) -> Playbook:
    """Return the playbook's table of levels and its scenarios, in prices."""
    return Playbook(
        bias=view.bias.bias.value,
        levels=[
            PlaybookLevel(
                price=number(line.price_ticks * tick_e9), label=line.label, kind=line.kind,
                side=line.side(view.last_ticks), distance_ticks=line.distance_ticks(view.last_ticks),
            )
            for line in view.levels
        ],
        scenarios=[_scenario(state, tick_e9) for state in view.scenarios],
    )  # fmt: skip


def _scenario(state: ScenarioState, tick_e9: int) -> Scenario:
    return Scenario(
        id=state.id, if_=state.if_.text(tick_e9), then=state.then,
        reference=state.reference.text(tick_e9), confirm=state.confirm.text(tick_e9),
        invalidate=state.invalidate.text(tick_e9), status=state.status.value,
    )  # fmt: skip


def votes(found: Votes) -> BiasVotes:
    """Return the votes behind the bias, in the form of an answer."""
    return BiasVotes(
        last=found.last, poc=found.poc, value=found.value, extension=found.extension,
        one_timeframing=found.one_timeframing, total=found.total,
    )  # fmt: skip


def method(ladder: Ladder, settings: ProfileSettings = DEFAULT_SETTINGS) -> Method:
    """Return the method by which the levels of a ladder are computed."""
    rule = settings.rule
    return Method(
        preset=rule.name, bracket_minutes=settings.bracket_minutes, value_area=rule.describe(),
        poc_tie=rule.describe_poc_tie(), row_ticks=settings.row_ticks, vpoc_source=ladder.source,
        bar_minutes=settings.close_minutes if settings.counts_closes else settings.bar_minutes, label=settings.label,
    )  # fmt: skip


def instrument(product: Product) -> Instrument:
    """Return where the data of a product comes from."""
    checked_on = product.checked_on and str(product.checked_on)
    return Instrument(own_tables=list(product.own_tables), source=product.source, checked_on=checked_on)


def high_low(found: tuple[int, int] | None, tick_e9: int) -> Overnight | None:
    """Convert the overnight high and low from ticks to prices; None if they are unknown."""
    return found and Overnight(high=number(found[0] * tick_e9), low=number(found[1] * tick_e9))


def ib_extensions(balance: tuple[int, int], high: int, low: int, tick_e9: int) -> list[IbExtension]:
    """Return multiples of the initial balance: 150 % is half its range beyond its edges, 200 % its whole range.

    `balance`: its high and low. `high`, `low`: of the session, all in ticks. Half of an odd number of ticks is rounded
    away from the balance, to a tradable price.
    """
    ib_high, ib_low = balance
    found: list[IbExtension] = []
    for percent in (150, 200, 300):
        beyond = -(-(ib_high - ib_low) * (percent - 100) // 100)
        up, down = ib_high + beyond, ib_low - beyond
        found.append(
            IbExtension(
                percent=percent, up=number(up * tick_e9), down=number(down * tick_e9),
                up_reached=high >= up, down_reached=low <= down,
            )
        )  # fmt: skip
    return found


def session_ib_extensions(view: SessionView) -> list[IbExtension]:
    """Return the multiples of a session's initial balance."""
    found = view.profile
    return ib_extensions((found.ib_high, found.ib_low), found.high, found.low, view.product.tick_e9)


def volumes(ladder: Ladder, product: Product) -> list[Size]:
    """Return the volume of each tick of a profile, lowest price first."""
    step_e9 = product.size_step_e9
    return [size(steps, step_e9) for steps in ladder.volume]


def session(view: SessionView) -> SessionLevels:
    """Return all levels of a session for an answer. An overnight session has no day type and no open type."""
    profile, final, regular = view.profile, view.live is None, view.kind is SessionKind.RTH
    day = day_type(profile, view.average_range) if regular else None
    opened = _open_type(view) if regular else None
    volume_low, volume_high = view.volume_area()

    def price(ticks: int) -> float:
        return number(ticks * view.product.tick_e9)

    return SessionLevels(
        contract=view.contract, date=str(view.trade_date), session=view.kind.value,
        open=iso_timestamp(view.open_ns), close=iso_timestamp(view.close_ns), short_session=view.short,
        final=final, ib_complete=view.ib_complete, day_type=day.value if day else None, day_type_final=final,
        open_type=opened.value if opened else None,
        open_type_final=final or (regular and view.ib_complete),  # bracket B ends with the first hour
        poc=price(profile.poc), vah=price(profile.vah), val=price(profile.val), vpoc=price(profile.vpoc),
        volume_vah=price(volume_high), volume_val=price(volume_low),
        high=price(profile.high), low=price(profile.low),
        open_price=price(profile.open), close_price=price(profile.close),
        ib_high=price(profile.ib_high), ib_low=price(profile.ib_low),
        poc_candidates=[price(ticks) for ticks in profile.poc_candidates],
        poor_high=profile.poor_high, poor_low=profile.poor_low,
        upper_tail_ticks=profile.upper_tail_rows, lower_tail_ticks=profile.lower_tail_rows,
        single_prints=[PriceRange(low=price(low), high=price(high)) for low, high in profile.single_prints],
        data=view.data(),
    )  # fmt: skip


def _open_type(view: SessionView) -> OpenType | None:
    """Return how a regular session opened, relative to the prior session and the overnight range."""
    prior = view.prior
    known = [prior.high, prior.low, prior.vah, prior.val] if prior else []
    return open_type(
        view.ladder, [*known, *(view.overnight or ())], (prior.low, prior.high) if prior else None
    )


def hours(regular: Sequence[Session], zone: str) -> str:
    """Return regular hours as text in a time zone, from the last full-length session of `regular`.

    Such as `09:30–16:15`, or with a break `09:15–12:00, 13:00–16:30`; the end of a day is `24:00`.
    """
    whole = next((s for s in reversed(regular) if not s.short), None)
    parts = [
        (_clock(opened, zone), _clock(closed, zone)) for opened, closed in (whole.segments if whole else ())
    ]
    return ", ".join(f"{opened}–{'24:00' if closed == '00:00' else closed}" for opened, closed in parts)


def _clock(at_ns: int, zone: str) -> str:
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, ZoneInfo(zone)):%H:%M}"
